/* Words, escapes and tool calls, put together to a chat of the wanted size. */
#include "scan_bodies.h"

#include "index/base/rng.h"

static const char *const words[] = {
    "the",     "of",       "to",       "a",
    "in",      "is",       "that",     "for",
    "and",     "it",       "with",     "as",
    "request", "router",   "prefix",   "cache",
    "worker",  "tokens",   "latency",  "because",
    "however", "function", "returns",  "error",
    "value",   "between",  "should",   "configuration",
    "please",  "explain",  "example",  "result",
    "number",  "flight",   "customer", "policy",
};
#define WORDS (sizeof(words) / sizeof(words[0]))

static void
english(struct buf *buf, struct rng *rng, size_t size)
{
    size_t end = buf->len + size;

    while (buf->len < end) {
        buf_add_text(buf, words[rng_below(rng, WORDS)]);
        switch (rng_below(rng, 24)) {
        case 0:
            buf_add_text(buf, ".\\n");
            break;
        case 1:
            buf_add_text(buf, ", \\\"");
            buf_add_text(buf, words[rng_below(rng, WORDS)]);
            buf_add_text(buf, "\\\" ");
            break;
        case 2:
            buf_add_text(buf, ". ");
            break;
        default:
            buf_add_text(buf, " ");
            break;
        }
    }
}

static void
chinese(struct buf *buf, struct rng *rng, size_t size, bool escaped)
{
    size_t end = buf->len + size;

    while (buf->len < end) {
        unsigned c = 0x4E00 + (unsigned)rng_below(rng, 0x5000);
        if (rng_below(rng, 16) == 0) {
            c = 0x3002; /* full stop */
        }
        if (escaped) {
            buf_printf(buf, "\\u%04x", c);
        } else {
            char utf8[3] = {(char)(0xE0 | c >> 12),
                            (char)(0x80 | (c >> 6 & 0x3F)),
                            (char)(0x80 | (c & 0x3F))};
            buf_add(buf, utf8, 3);
        }
    }
}

static void
text(struct buf *buf, struct rng *rng, size_t size, enum scan_body_kind kind)
{
    if (kind == BODY_CHINESE || kind == BODY_ESCAPED) {
        chinese(buf, rng, size, kind == BODY_ESCAPED);
    } else {
        english(buf, rng, size);
    }
}

static void
head(struct buf *buf)
{
    buf_add_text(buf, "{\"model\":\"meta-llama/Llama-3.1-8B-Instruct\","
                      "\"temperature\":0.7,\"top_p\":0.95,\"stream\":true,"
                      "\"max_tokens\":512,");
}

/* Turns of 200 to 1,000 bytes, a system prompt first. */
static void
chat(struct buf *buf, struct rng *rng, size_t size, enum scan_body_kind kind)
{
    size_t end = buf->len + size;

    head(buf);
    buf_add_text(buf, "\"messages\":[{\"role\":\"system\",\"content\":\"");
    text(buf, rng, size / 8, kind);
    for (unsigned turn = 0; buf->len + 200 < end; turn++) {
        buf_printf(buf, "\"},{\"role\":\"%s\",\"content\":\"",
                   turn % 2 == 0 ? "user" : "assistant");
        text(buf, rng, 200 + (size_t)rng_below(rng, 800), kind);
    }
    buf_add_text(buf, "\"}]}");
}

/* One tool with a handful of parameters; s is what follows : and , */
static void
tool(struct buf *buf, struct rng *rng, const char *s)
{
    static const char *const types[] = {"string", "integer", "number",
                                        "boolean"};

    buf_printf(buf,
               "{\"type\":%s\"function\",%s\"function\":%s{\"name\":%s\"%s_%s\""
               ",%s\"description\":%s\"",
               s, s, s, s, words[rng_below(rng, WORDS)],
               words[rng_below(rng, WORDS)], s, s);
    english(buf, rng, 30 + (size_t)rng_below(rng, 60));
    buf_printf(buf,
               "\",%s\"parameters\":%s{\"type\":%s\"object\",%s\"properties\":"
               "%s{",
               s, s, s, s, s);
    for (unsigned i = 0, n = 2 + (unsigned)rng_below(rng, 5); i < n; i++) {
        buf_printf(buf,
                   "%s\"%s_%u\":%s{\"type\":%s\"%s\",%s\"description\":%s\"",
                   i != 0 ? "," : "", words[rng_below(rng, WORDS)], i, s, s,
                   types[rng_below(rng, 4)], s, s);
        english(buf, rng, 15 + (size_t)rng_below(rng, 40));
        buf_add_text(buf, "\"");
        if (rng_below(rng, 4) == 0) {
            buf_printf(buf, ",%s\"enum\":%s[\"%s\",%s\"%s\",%s\"%s\"]", s, s,
                       words[rng_below(rng, WORDS)], s,
                       words[rng_below(rng, WORDS)], s,
                       words[rng_below(rng, WORDS)]);
        }
        if (rng_below(rng, 4) == 0) {
            buf_printf(buf, ",%s\"default\":%s%u", s, s,
                       (unsigned)rng_below(rng, 1000));
        }
        buf_add_text(buf, "}");
    }
    buf_printf(
        buf,
        "},%s\"required\":%s[\"%s_0\"],%s\"additionalProperties\":%sfalse"
        "}}}",
        s, s, words[rng_below(rng, WORDS)], s, s);
}

static void
tools(struct buf *buf, struct rng *rng, size_t size, const char *s)
{
    size_t end = buf->len + size;

    head(buf);
    buf_printf(buf, "\"messages\":%s[{\"role\":%s\"user\",%s\"content\":%s\"",
               s, s, s, s);
    english(buf, rng, 300);
    buf_printf(buf, "\"}],%s\"tools\":%s[", s, s);
    for (unsigned i = 0; buf->len < end; i++) {
        buf_printf(buf, "%s", i != 0 ? "," : "");
        buf_add_text(buf, i != 0 ? s : "");
        tool(buf, rng, s);
    }
    buf_add_text(buf, "]}");
}

static void
ids(struct buf *buf, struct rng *rng, size_t size)
{
    size_t end = buf->len + size;

    head(buf);
    buf_add_text(buf, "\"prompt\":[128000");
    while (buf->len < end) {
        buf_printf(buf, ",%u", (unsigned)rng_below(rng, 128000));
    }
    buf_add_text(buf, "]}");
}

void
scan_body_make(struct buf *buf, enum scan_body_kind kind, size_t size,
               uint64_t seed)
{
    struct rng rng;

    rng_init(&rng, seed);
    switch (kind) {
    case BODY_CHAT:
    case BODY_CHINESE:
    case BODY_ESCAPED:
        chat(buf, &rng, size, kind);
        break;
    case BODY_TOOLS:
        tools(buf, &rng, size, "");
        break;
    case BODY_SPACED:
        tools(buf, &rng, size, " ");
        break;
    case BODY_IDS:
        ids(buf, &rng, size);
        break;
    }
}
