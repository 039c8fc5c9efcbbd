/* Streams that break off at every byte, and go on at another engine. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/route/resume.h"

/* Texts of events, as raw JSON. Spaces and line ends are where templates cut. */
static const char *const words[] = {
    "Hello",       " world",          ".",          "\\n\\n", " ",
    " caf\\u00e9", " \\ud83d\\ude00", " \\\"x\\\"", "\\t",    "\\\\n",
    " caf\u00e9",  "\u3000",          " and",       "\\\\",   " so",
    " on",
};

#define WORDS    (sizeof(words) / sizeof(words[0]))
#define ROOM     ((size_t)8192)
#define TEXT_MAX ((size_t)16384)

static const char chat[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Say "
    "it.\"}],\"max_tokens\":16,\"temperature\":0,\"stream\":true}";
static const char completion[] = "{\"model\":\"m\",\"prompt\":\"Say "
                                 "it:\",\"max_tokens\":16,\"stream\":true}";

struct got {
    char text[TEXT_MAX];
    size_t len;
};

static void
add(struct got *got, struct slice bytes)
{
    cr_assert(got->len + bytes.len < TEXT_MAX);
    memcpy(got->text + got->len, bytes.ptr, bytes.len);
    got->len += bytes.len;
    got->text[got->len] = '\0';
}

static void
add_text(struct got *got, const char *text)
{
    add(got, slice_of(text));
}

/* Whether engines tell the usage of each event. */
static bool each;

/* An event of that engine, but for what it tells beside its choices. */
static void
add_event(struct got *out, enum scan_api api, const char *engine, size_t from,
          const char *choices)
{
    char line[256];

    (void)snprintf(
        line, sizeof(line),
        "data: {\"id\":\"%s\",\"object\":\"%s\",\"created\":%zu,"
        "\"model\":\"m\",\"choices\":[",
        engine,
        api == SCAN_API_CHAT ? "chat.completion.chunk" : "text_completion",
        1000 + from);
    add_text(out, line);
    add_text(out, choices);
    add_text(out, "]");
}

/* What it tells beside them; the event ends. */
static void
add_usage(struct got *out, bool told, size_t prompt, size_t answer)
{
    char line[128];

    (void)snprintf(line, sizeof(line),
                   ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu,"
                   "\"completion_tokens\":%zu}",
                   prompt, prompt + answer, answer);
    add_text(out, told ? line : "");
    add_text(out, "}\n\n");
}

/* What an engine of that name streams from that word on. */
static void
stream(struct got *out, enum scan_api api, const char *engine, size_t from,
       size_t prompt)
{
    char choice[256];

    out->len = 0;
    if (api == SCAN_API_CHAT) {
        add_event(out, api, engine, from,
                  "{\"index\":0,\"delta\":{\"role\":\"assistant\","
                  "\"content\":\"\"},\"finish_reason\":null}");
        add_usage(out, each, prompt + from, 0);
    }
    for (size_t i = from; i < WORDS; i++) {
        (void)snprintf(choice, sizeof(choice),
                       api == SCAN_API_CHAT
                           ? "{\"index\":0,\"delta\":{\"content\":\"%s\"},"
                             "\"logprobs\":null,\"finish_reason\":%s}"
                           : "{\"index\":0,\"text\":\"%s\",\"logprobs\":null,"
                             "\"finish_reason\":%s}",
                       words[i], i + 1 == WORDS ? "\"length\"" : "null");
        add_event(out, api, engine, from, choice);
        add_usage(out, each, prompt + from, i + 1 - from);
    }
    add_event(out, api, engine, from, "");
    add_usage(out, true, prompt + from, WORDS - from);
    add_text(out, "data: [DONE]\n\n");
}

/* Takes the usage event out, the only one without choices. */
static void
drop_usage(struct got *got)
{
    char *at = strstr(got->text, "\"choices\":[]");

    cr_assert_not_null(at);
    while (strncmp(at, "data: ", 6) != 0) {
        at--;
    }
    char *end = strstr(at, "\n\n") + 2;
    memmove(at, end, strlen(end) + 1);
    got->len = strlen(got->text);
}

/* Gives bytes in pieces of that size; false: torn, or failed. */
static bool
give(struct resume *r, struct slice bytes, size_t piece, struct got *got)
{
    while (bytes.len != 0) {
        size_t len = bytes.len < piece ? bytes.len : piece;
        struct slice out;
        cr_assert_leq(resume_needs(r, len), ROOM);
        resume_give(r, (struct slice){bytes.ptr, len});
        while (resume_next(r, &out)) {
            add(got, out);
        }
        if (r->torn || r->failed) {
            return false;
        }
        bytes.ptr += len;
        bytes.len -= len;
    }
    return true;
}

static void
begin(struct resume *r, char room[ROOM], enum scan_api api, bool exact)
{
    resume_init(r);
    resume_begin(r, api, exact, false);
    r->room = room;
    r->size = ROOM;
}

static void
end(struct resume *r)
{
    r->room = NULL;
    resume_fini(r);
}

static void
edit(struct slice body, const struct body_edit *edits, int count,
     struct got *out)
{
    size_t from = 0;

    out->len = 0;
    for (int i = 0; i < count; i++) {
        cr_assert_geq(edits[i].at, from);
        add(out, (struct slice){body.ptr + from, edits[i].at - from});
        add(out, edits[i].text);
        from = edits[i].at + edits[i].cut;
    }
    add(out, (struct slice){body.ptr + from, body.len - from});
}

/* The word with which an engine would go on; exits if the body is not what it
 * should be. */
static size_t
word_of(const char *body, enum scan_api api)
{
    char expected[TEXT_MAX / 2] = "";

    for (size_t i = 0; i <= WORDS; i++) {
        char whole[TEXT_MAX];
        if (i == 0) {
            (void)snprintf(whole, sizeof(whole), "%s",
                           api == SCAN_API_CHAT ? chat : completion);
        } else if (api == SCAN_API_CHAT) {
            (void)snprintf(
                whole, sizeof(whole),
                "{\"add_generation_prompt\":false,\"continue_final_message\":"
                "true,\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                "\"content\":\"Say it.\"},{\"role\":\"assistant\","
                "\"content\":\"%s\"}],\"max_tokens\":%zu,\"temperature\":0,"
                "\"stream\":true}",
                expected, WORDS - i);
        } else {
            (void)snprintf(whole, sizeof(whole),
                           "{\"model\":\"m\",\"prompt\":\"Say it:%s\","
                           "\"max_tokens\":%zu,\"stream\":true}",
                           expected, WORDS - i);
        }
        if (strcmp(body, whole) == 0) {
            return i;
        }
        if (i < WORDS) {
            size_t len = strlen(expected);
            (void)snprintf(expected + len, sizeof(expected) - len, "%s",
                           words[i]);
        }
    }
    cr_assert_fail("no engine could go on with %s", body);
    return 0;
}

/* Where it ends but for its usage, that is made of what the last word's event
 * told; the client gets none where that told none. */
static void
break_at(enum scan_api api, size_t at, size_t piece, bool exact)
{
    static struct got whole;
    static struct got first;
    static struct got rest;
    static struct got body;
    static struct got got;
    static char room[ROOM];
    struct slice request =
        api == SCAN_API_CHAT ? SLICE(chat) : SLICE(completion);
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;
    struct slice missing;

    stream(&whole, api, "one", 0, 5);
    stream(&first, api, "one", 0, 5);
    got.len = 0;
    begin(&r, room, api, exact);
    cr_assert(give(&r, (struct slice){first.text, at}, piece, &got));
    bool named = r.id_len != 0;
    if (resume_finish(&r, true, &missing)) {
        add(&got, missing);
        cr_assert_lt(resume_ask(&r, request, edits), 0);
        if (!r.usage_told && !each) {
            drop_usage(&whole); /* it was not told with the last word */
        }
    } else {
        int count = resume_ask(&r, request, edits);
        cr_assert_geq(count, 0, "at %zu: not resumed", at);
        edit(request, edits, count, &body);
        size_t word = word_of(body.text, api);
        stream(&rest, api, "two", word, 5);
        resume_continue(&r);
        cr_assert(give(&r, (struct slice){rest.text, rest.len}, piece, &got),
                  "at %zu: torn", at);
        cr_assert_eq(resume_rest(&r).len, 0);
        cr_assert(!r.torn);
    }
    if (!named) { /* the client has seen nothing of the first answer */
        stream(&whole, api, "two", 0, 5);
    }
    cr_assert_str_eq(got.text, whole.text, "at %zu in %zus", at, piece);
    end(&r);
}

static void
break_everywhere(void)
{
    static const enum scan_api apis[] = {SCAN_API_CHAT, SCAN_API_TEXT};
    static const size_t pieces[] = {1, 7, 100, 4000};
    struct got all;

    for (size_t a = 0; a < 2; a++) {
        stream(&all, apis[a], "one", 0, 5);
        for (size_t p = 0; p < 4; p++) {
            for (size_t at = 0; at <= all.len; at++) {
                break_at(apis[a], at, pieces[p], true);
                break_at(apis[a], at, pieces[p], false);
            }
        }
    }
}

Test(resume, an_answer_is_whole_wherever_it_breaks_off)
{
    break_everywhere();
}

Test(resume, so_it_is_with_its_usage_where_each_event_tells_it)
{
    each = true;
    break_everywhere();
}

Test(resume, an_answer_may_break_off_again_and_again)
{
    static struct got whole;
    static struct got next;
    static struct got body;
    static struct got got;
    static char room[ROOM];
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;
    size_t word = 0;

    stream(&whole, SCAN_API_CHAT, "one", 0, 5);
    begin(&r, room, SCAN_API_CHAT, true);
    stream(&next, SCAN_API_CHAT, "one", 0, 5);
    got.len = 0;
    for (int i = 0; i < 20; i++) {
        size_t part = next.len < 900 ? next.len : 900;
        cr_assert(give(&r, (struct slice){next.text, part}, 64, &got));
        if (r.done) {
            break;
        }
        int count = resume_ask(&r, SLICE(chat), edits);
        cr_assert_geq(count, 0, "%d after %u words", i, r.tokens);
        edit(SLICE(chat), edits, count, &body);
        word = word_of(body.text, SCAN_API_CHAT);
        stream(&next, SCAN_API_CHAT, "other", word, 5);
        resume_continue(&r);
    }
    cr_assert_gt(r.times, 2);
    cr_assert_str_eq(got.text, whole.text);
    end(&r);
}

static bool
continues_with(const char *event)
{
    static struct got first;
    static struct got got;
    static char room[ROOM];
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;
    bool good;

    stream(&first, SCAN_API_CHAT, "one", 0, 5);
    got.len = 0;
    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(give(&r, (struct slice){first.text, 720}, 720, &got));
    cr_assert_eq(r.tokens, 3);
    cr_assert_gt(resume_ask(&r, SLICE(chat), edits), 0);
    resume_continue(&r);
    good = give(&r, slice_of(event), 4000, &got);
    end(&r);
    return good;
}

#define DELTA(text)                                                   \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text \
    "\"}}]}\n\n"

Test(resume, an_answer_that_begins_otherwise_is_torn)
{
    cr_assert(continues_with(DELTA(".")));
    cr_assert(continues_with(DELTA(".\\n")));
    cr_assert(continues_with(DELTA("\\u002e")));
    cr_assert(!continues_with(DELTA("Hello")));
    cr_assert(!continues_with(DELTA(",")));
    cr_assert(!continues_with("data: [DONE]\n\n"));
    cr_assert(!continues_with(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[1]}}]}"
        "\n\n"));
    cr_assert(!continues_with(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
        "\"stop\"}]}\n\n"));
}

/* An answer with this event at its end, which breaks off there. */
static void
break_off_after(struct resume *r, const char *event)
{
    static struct got first;
    static struct got got;
    static char room[ROOM];

    stream(&first, SCAN_API_CHAT, "one", 0, 5);
    got.len = 0;
    begin(r, room, SCAN_API_CHAT, true);
    first.len = 500;
    while (strncmp(first.text + first.len - 2, "\n\n", 2) != 0) {
        first.len--;
    }
    add_text(&first, event);
    cr_assert(give(r, (struct slice){first.text, first.len}, 64, &got));
    cr_assert_eq(got.len, first.len, "it passes as it came");
}

static bool
is_resumed_after(const char *event)
{
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;

    break_off_after(&r, event);
    bool resumed = resume_ask(&r, SLICE(chat), edits) >= 0;
    end(&r);
    return resumed;
}

Test(resume, what_is_not_text_is_not_resumed)
{
    cr_assert(is_resumed_after(": a comment\n\n"));
    cr_assert(is_resumed_after(DELTA(" more")));
    cr_assert(!is_resumed_after("event: x\ndata: {}\n\n"));
    cr_assert(!is_resumed_after("data: not JSON\n\n"));
    cr_assert(!is_resumed_after(
        "data: "
        "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"x\"}}]}\n\n"));
    cr_assert(!is_resumed_after(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{}]}}]}"
        "\n\n"));
    cr_assert(!is_resumed_after("data: {\"choices\":[{\"index\":0,\"delta\":{"
                                "\"reasoning_content\":\"hm\"}}]}\n\n"));
    cr_assert(
        is_resumed_after("data: {\"choices\":[{\"index\":0,\"delta\":{"
                         "\"reasoning_content\":null,\"tool_calls\":[]}}]}"
                         "\n\n"));
    cr_assert(!is_resumed_after(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},"
        "\"logprobs\":{\"content\":[1]}}]}\n\n"));
}

#define ENDS(reason)                                                      \
    "data: "                                                              \
    "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" reason \
    "\"}]}\n\n"

static bool
is_made_whole_after(const char *event)
{
    struct slice missing;
    struct resume r;

    break_off_after(&r, event);
    bool whole = resume_finish(&r, false, &missing);
    end(&r);
    return whole;
}

Test(resume, an_answer_that_its_engine_gave_up_is_not_made_whole)
{
    cr_assert(is_made_whole_after(ENDS("stop")));
    cr_assert(is_made_whole_after(ENDS("length")));
    cr_assert(!is_made_whole_after(DELTA(" more")));
    cr_assert(!is_made_whole_after(ENDS("abort")));
    cr_assert(!is_made_whole_after(ENDS("error")));
    cr_assert(!is_made_whole_after(ENDS("cancelled")));
}

Test(resume, an_error_of_the_engine_is_its_end)
{
    static char room[ROOM];
    static struct got got;
    struct resume r;

    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(!give(
        &r, SLICE("data: {\"error\":{\"message\":\"dead\",\"code\":500}}\n\n"),
        9, &got));
    cr_assert(r.failed);
    cr_assert_eq(got.len, 0);
    end(&r);
    cr_assert(!is_resumed_after(
        "data: {\"error\":{\"message\":\"yours\",\"code\":400}}\n\n"));
}

static bool
is_continued(const char *member)
{
    static struct got first;
    static struct got got;
    static struct got body;
    static char room[ROOM];
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;

    body.len = 0;
    add_text(&body, "{");
    add_text(&body, member);
    add_text(&body, "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
    stream(&first, SCAN_API_CHAT, "one", 0, 5);
    got.len = 0;
    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(give(&r, (struct slice){first.text, 600}, 64, &got));
    bool is = resume_ask(&r, (struct slice){body.text, body.len}, edits) >= 0;
    end(&r);
    return is;
}

Test(resume, requests_whose_answers_have_a_form_are_not_continued)
{
    cr_assert(is_continued(""));
    cr_assert(is_continued("\"response_format\":{\"type\":\"text\"},"));
    cr_assert(is_continued("\"tools\":[{}],\"tool_choice\":\"auto\","));
    cr_assert(is_continued("\"presence_penalty\":0.0,\"n\":1,\"seed\":7,"));
    cr_assert(is_continued("\"max_completion_tokens\":null,"));
    cr_assert(!is_continued("\"response_format\":{\"type\":\"json_object\"},"));
    cr_assert(!is_continued("\"tools\":[{}],\"tool_choice\":\"required\","));
    cr_assert(!is_continued("\"guided_regex\":\"a+\","));
    cr_assert(!is_continued("\"presence_penalty\":0.5,"));
    cr_assert(!is_continued("\"n\":2,"));
    cr_assert(!is_continued("\"logprobs\":true,"));
    cr_assert(is_continued("\"min_tokens\":0,"));
    cr_assert(!is_continued("\"min_tokens\":3,"));
    cr_assert(!is_continued("\"max_tokens\":1,"));
    cr_assert(!is_continued("\"max_tokens\":9,\"max_tokens\":9,"));
    cr_assert(!is_continued("\"messages\":[{\"role\":\"user\"}],"));
    cr_assert(!is_continued("\"prompt_logprobs\":1,"));
}

/* An engine that puts several tokens into an event, and tells how many there
 * are by then. */
#define EVENT(text, count)                                           \
    "data: {\"id\":\"one\",\"created\":1,\"choices\":[{\"index\":0," \
    "\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null}]," \
    "\"usage\":{\"prompt_tokens\":5,\"total_tokens\":99,"            \
    "\"completion_tokens\":" #count "}}\n\n"

/* What becomes of the request when that breaks off. */
static void
ask_after(struct resume *r, char room[ROOM], const char *events,
          const char *request, struct got *body)
{
    static struct got got;
    struct body_edit edits[RESUME_EDITS_MAX];

    got.len = 0;
    begin(r, room, SCAN_API_CHAT, true);
    cr_assert(give(r, slice_of(events), 13, &got));
    cr_assert_str_eq(got.text, events);
    int count = resume_ask(r, slice_of(request), edits);
    cr_assert_gt(count, 0);
    edit(slice_of(request), edits, count, body);
}

#define REQUEST(more)                                                       \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":" \
    "20" more "}"
#define ASKED(max, more)                                                    \
    "{\"add_generation_prompt\":false,\"continue_final_message\":true,"     \
    "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"                  \
    "{\"role\":\"assistant\",\"content\":\"A b c d\"}],\"max_tokens\":" max \
        more "}"

static const char several[] =
    "data: {\"id\":\"one\",\"created\":1,\"choices\":[{\"index\":0,"
    "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" EVENT("A", 1)
        EVENT(" b c d", 4) EVENT(" e f", 6);

Test(resume, tokens_are_counted_as_the_engine_tells)
{
    static char room[ROOM];
    static struct got body;
    static struct got got;
    struct resume r;

    ask_after(&r, room, several, REQUEST(""), &body);
    cr_assert_str_eq(body.text, ASKED("16", ""));
    resume_continue(&r);
    /* Its prompt has four tokens more, by its own count another one, too. */
    got.len = 0;
    cr_assert(give(&r,
                   SLICE("data: {\"id\":\"two\",\"created\":2,\"choices\":[{"
                         "\"index\":0,\"delta\":{\"role\":\"assistant\","
                         "\"content\":\"\"}}],\"usage\":{\"prompt_tokens\":10,"
                         "\"total_tokens\":10,\"completion_tokens\":0}}\n\n"
                         "data: {\"id\":\"two\",\"created\":2,\"choices\":[{"
                         "\"index\":0,\"delta\":{\"content\":\" e f g h\"}}],"
                         "\"usage\":{\"prompt_tokens\":10,\"total_tokens\":14,"
                         "\"completion_tokens\":4}}\n\n"),
                   31, &got));
    cr_assert_str_eq(got.text,
                     "data: {\"id\":\"one\",\"created\":1,\"choices\":[{"
                     "\"index\":0,\"delta\":{\"content\":\" g h\"}}],"
                     "\"usage\":{\"prompt_tokens\":5,\"total_tokens\":13,"
                     "\"completion_tokens\":8}}\n\n");
    cr_assert_eq(r.tokens, 8);
    end(&r);
}

Test(resume, the_least_tokens_are_lessened_where_they_are_counted)
{
    static char room[ROOM];
    static struct got body;
    struct resume r;

    ask_after(&r, room, several, REQUEST(",\"min_tokens\":7"), &body);
    cr_assert_str_eq(body.text, ASKED("16", ",\"min_tokens\":3"));
    end(&r);
    ask_after(&r, room, several, REQUEST(",\"min_tokens\":3"), &body);
    cr_assert_str_eq(body.text, ASKED("16", ",\"min_tokens\":0"));
    end(&r);
}

Test(resume, behind_long_stop_strings_events_are_counted)
{
    static char room[ROOM];
    static struct got body;
    struct resume r;

    ask_after(&r, room, several, REQUEST(",\"stop\":\"ab\""), &body);
    cr_assert_str_eq(body.text, ASKED("18", ",\"stop\":\"ab\""));
    end(&r);
    ask_after(&r, room, several, REQUEST(",\"stop\":[\"a\",\"ab\"]"), &body);
    cr_assert_str_eq(body.text, ASKED("18", ",\"stop\":[\"a\",\"ab\"]"));
    end(&r);
    ask_after(&r, room, several, REQUEST(",\"stop\":[\"\\n\",\"a\"]"), &body);
    cr_assert_str_eq(body.text, ASKED("16", ",\"stop\":[\"\\n\",\"a\"]"));
    end(&r); /* nothing is held back where the answer has the string */
    ask_after(&r, room, several,
              REQUEST(",\"stop\":\"ab\",\"include_stop_str_in_output\":true"),
              &body);
    cr_assert_str_eq(
        body.text,
        ASKED("16", ",\"stop\":\"ab\",\"include_stop_str_in_output\":true"));
    end(&r);
    ask_after(&r, room, several,
              REQUEST(",\"include_stop_str_in_output\":false,\"stop\":\"ab\""),
              &body);
    cr_assert_str_eq(
        body.text,
        ASKED("18", ",\"include_stop_str_in_output\":false,\"stop\":\"ab\""));
    end(&r);
}

Test(resume, what_has_to_come_again_may_be_long)
{
    static char room[ROOM];
    static struct got first;
    static struct got got;
    static struct got body;
    char long_word[1200];
    struct resume r;

    memset(long_word, 'x', sizeof(long_word));
    long_word[0] = ' ';
    long_word[sizeof(long_word) - 1] = '\0';
    first.len = 0;
    add_text(&first, EVENT("A b c d", 4));
    add_text(&first, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":"
                     "\"");
    add_text(&first, long_word);
    add_text(&first, "\"}}],\"usage\":{\"completion_tokens\":15}}\n\n");
    ask_after(&r, room, first.text, REQUEST(""), &body);
    cr_assert_str_eq(body.text, ASKED("16", ""));
    resume_continue(&r);
    got.len = 0;
    for (size_t i = 0; long_word[i] != '\0'; i++) {
        char event[80];
        (void)snprintf(event, sizeof(event),
                       "data: {\"choices\":[{\"index\":0,\"delta\":{"
                       "\"content\":\"%c\"}}]}\n\n",
                       long_word[i]);
        cr_assert(give(&r, slice_of(event), 80, &got), "at %zu", i);
    }
    cr_assert_eq(got.len, 0);
    cr_assert(give(&r, SLICE(DELTA("!")), 80, &got));
    cr_assert_str_eq(got.text, DELTA("!"));
    end(&r);
}

Test(resume, usage_beside_the_text_is_not_that_of_the_end)
{
    static char room[ROOM];
    static struct got got;
    struct resume r;
    struct slice missing;

    got.len = 0;
    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(give(&r, slice_of(several), 13, &got));
    cr_assert(give(&r,
                   SLICE("data: {\"choices\":[{\"index\":0,\"delta\":{"
                         "\"content\":\"!\"},\"finish_reason\":\"stop\"}],"
                         "\"usage\":{\"completion_tokens\":7}}\n\n"),
                   50, &got));
    cr_assert(resume_finish(&r, false, &missing));
    cr_assert_eq(missing.len, sizeof("data: [DONE]\n\n") - 1);
    cr_assert(!r.usage_told);
    end(&r);
}

Test(resume, a_message_of_the_assistant_is_not_gone_on_with)
{
    static struct got first;
    static struct got got;
    static char room[ROOM];
    struct body_edit edits[RESUME_EDITS_MAX];
    struct resume r;

    stream(&first, SCAN_API_CHAT, "one", 0, 5);
    got.len = 0;
    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(give(&r, (struct slice){first.text, 600}, 64, &got));
    cr_assert_lt(resume_ask(&r,
                            SLICE("{\"messages\":[{\"content\":\"x\",\"role\":"
                                  "\"assistant\"}]}"),
                            edits),
                 0);
    end(&r);
}

Test(resume, what_is_held_passes_when_it_is_given_up)
{
    static struct got got;
    static char room[ROOM];
    struct resume r;

    got.len = 0;
    begin(&r, room, SCAN_API_CHAT, true);
    cr_assert(give(&r, SLICE("data: {\"choi"), 5, &got));
    cr_assert_eq(got.len, 0);
    resume_end(&r);
    cr_assert(give(&r, SLICE("ces\":"), 5, &got));
    cr_assert_str_eq(got.text, "data: {\"choices\":");
    end(&r);
}
