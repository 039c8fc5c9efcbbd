// Takes a dashboard as Grafana's own types have it, from standard input: what is
// unknown, missing or of another kind is told, and it exits with 1.
// Queries pass as they are: they are read before it is known whose they are.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	var board dashboard.Dashboard
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = board.UnmarshalJSONStrict(text)
	}
	if err == nil || err.Error() == "" { // an empty list of faults is not nil there
		err = board.Validate()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
