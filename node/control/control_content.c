/* Reads, publishes and counts content rules. */
#include "node/control/control_content.h"

#include <errno.h>
#include <inttypes.h>

#include "node/base/log.h"
#include "node/config/config_content.h"
#include "node/text/prom_out.h"

int
control_content_read(const struct node_shared *node, struct content **fresh,
                     struct config_errors *errors)
{
    const char *file = node->config->content.file;

    *fresh = NULL; /* whether there are rules is settled when a node starts */
    return file[0] == '\0' ? 0 : config_content_load(file, fresh, errors);
}

void
control_content_publish(struct node_shared *node, struct content *fresh)
{
    struct content *before =
        (struct content *)(uintptr_t)publish_get(&node->content);

    if (fresh == NULL) {
        return;
    }
    publish_set(&node->content, fresh);
    if (before != NULL) {
        qsbr_retire(&node->qsbr, content_retired(before), content_free_retired);
    }
    LOG_INFO("content_read", KV("file", node->config->content.file),
             KV("rules", content_rules_count(fresh)));
}

int
control_content_start(struct node_shared *node)
{
    struct config_errors errors;
    struct content *fresh;

    config_errors_init(&errors);
    int outcome = control_content_read(node, &fresh, &errors);
    if (outcome == 0) {
        control_content_publish(node, fresh);
    } else {
        LOG_ERROR("content_unread", KV("first", buf_slice(&errors.text)),
                  KV("hint", "mend the file: kvasir check shows every fault"));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

/* Of requests that a rule with examples came into question for. */
static void
put_likes(const struct content *content, struct buf *out)
{
    static const char metric[] = "kvasir_content_likened_total";

    if (content_examples(content) == 0) {
        return;
    }
    prom_out_head(out, metric, "counter",
                  "Requests that were likened to examples of content.file, "
                  "since it was last read: known (by their vector), loading "
                  "(the examples' vectors are not all there), late (theirs did "
                  "not come in time), failed (an engine did not tell it), away "
                  "(no engine was asked: none serves the model, or too many "
                  "calls were open or had failed), tenant (isolated, or of a "
                  "residency)");
    for (unsigned like = CONTENT_LIKE_KNOWN; like < CONTENT_LIKES; like++) {
        buf_printf(out, "%s{result=\"%s\"} %" PRIu64 "\n", metric,
                   content_like_name((enum content_like)like),
                   content_like_count(content, (enum content_like)like));
    }
}

void
control_content_put_metrics(const struct node_shared *node, struct buf *out)
{
    static const char metric[] = "kvasir_content_requests_total";
    const struct content *content = publish_get(&node->content);
    const char *name;
    const char *rule;
    uint64_t count;
    uint32_t at = 0;

    if (content == NULL) {
        return;
    }
    put_likes(content, out);
    prom_out_head(out, metric, "counter",
                  "Requests for names of content.file, by the rule that chose "
                  "their model (none: no rule fits), since it was last read");
    while (content_next_count(content, &at, &name, &rule, &count)) {
        buf_printf(out, "%s{name=\"", metric);
        prom_out_label(out, name);
        buf_add_text(out, "\",rule=\"");
        prom_out_label(out, rule[0] != '\0' ? rule : "none");
        buf_printf(out, "\"} %" PRIu64 "\n", count);
    }
}
