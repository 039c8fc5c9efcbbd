#!/usr/bin/env python3
"""Writes the files of the page as C: page_files[] of page.h.

    embed.py OUT FILE...
"""
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LINE = 16


def lines(data):
    for at in range(0, len(data), LINE):
        yield "    " + ", ".join(f"{byte:#04x}" for byte in data[at:at + LINE]) + ",\n"


def main(out, files):
    text = ['#include "node/page/page.h"\n']
    rows = []
    for i, file in enumerate(files):
        data = file.read_bytes()
        text += [f"\nstatic const unsigned char file_{i}[] = {{\n", *lines(data), "};\n"]
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        rows.append(f'    {{{{"{path}", {len(path)}}}, "{TYPES[file.suffix]}",\n'
                    f"     {{(const char *)file_{i}, {len(data)}}}}},\n")
    text += ["\nconst struct page_file page_files[] = {\n", *rows, "};\n",
             f"const size_t page_files_count = {len(files)};\n"]
    out.write_text("".join(text))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]])
