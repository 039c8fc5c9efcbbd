/*
 * Sound: what is said in a file, and a file that says something. As vLLM
 * answers /v1/audio/transcriptions (a form), and vLLM-Omni /v1/audio/speech.
 */
#include <inttypes.h>
#include <time.h>

#include "chaos/engine/engine_form_internal.h"
#include "chaos/engine/engine_http_internal.h"
#include "chaos/engine/engine_json_internal.h"
#include "index/index.h"

#define BYTES_PER_S    32000U /* of a file that is heard: 16 kHz of 16 bits */
#define WORDS_PER_S    3U
#define WORDS_MAX      256U
#define RATE           8000U /* samples a second of what is said, ... */
#define TOKEN_SAMPLES  480U  /* ... and how many a token takes */
#define SPEECH_MAX     4096U /* bytes of a text that is said */
#define WAV_HEAD_BYTES 44U

/* The ids of what a file says: the same for the same file. */
static void
listen_to(struct engine_server *s, struct slice file, uint64_t seconds)
{
    struct engine_ids *ids = &s->prompt.ids;
    uint64_t words = 1 + seconds * WORDS_PER_S;

    ids->count = 0;
    ids->failed = false;
    engine_ids_add_reply(ids, key_digest(file),
                         (uint32_t)(words < WORDS_MAX ? words : WORDS_MAX),
                         false);
    s->out.failed |= ids->failed;
}

static void
put_words(struct engine_server *s)
{
    char text[ENGINE_TOKEN_BYTES_MAX];

    for (size_t i = 0; i < s->prompt.ids.count; i++) {
        size_t len = engine_token_text(s->prompt.ids.ids[i], text);
        buf_add(&s->out, text, len);
    }
}

/* A chunk for each word, and the end. */
static void
put_word_events(struct engine_server *s, const char *model)
{
    const struct engine_ids *ids = &s->prompt.ids;
    uint64_t number = s->next_number++;
    uint64_t now_s = (uint64_t)time(NULL);

    for (size_t i = 0; i < ids->count; i++) {
        char text[ENGINE_TOKEN_BYTES_MAX];
        size_t len = engine_token_text(ids->ids[i], text);
        buf_printf(&s->out,
                   "data: {\"id\":\"trsc-%016" PRIx64
                   "\",\"object\":\"transcription.chunk\",\"created\":%" PRIu64
                   ",\"model\":\"%s\",\"choices\":[{\"delta\":{\"content\":"
                   "\"%.*s\"},\"finish_reason\":%s}]}\n\n",
                   number, now_s, model, (int)len, text,
                   i + 1 == ids->count ? "\"stop\"" : "null");
    }
    buf_add_text(&s->out, "data: [DONE]\n\n");
}

void
engine_post_transcriptions(struct engine_server *s,
                           struct httpd_request *request)
{
    struct slice body = httpd_body(request);
    struct slice file = engine_form_field(body, "file");
    struct slice form = engine_form_field(body, "response_format");
    bool plain = slice_equal(form, SLICE("text"));
    uint64_t seconds = (file.len + BYTES_PER_S - 1) / BYTES_PER_S;
    uint32_t model;

    if (file.ptr == NULL) {
        httpd_error(request, 400, "bad_request",
                    "a form is wanted, with a `file`");
        return;
    }
    if (form.len != 0 && !plain && !slice_equal(form, SLICE("json"))) {
        httpd_error(request, 400, "bad_request",
                    "`response_format` must be json or text");
        return;
    }
    if (!engine_server_model_named(s, request, engine_form_field(body, "model"),
                                   &model)) {
        return;
    }
    listen_to(s, file, seconds);
    if (slice_equal(engine_form_field(body, "stream"), SLICE("true"))) {
        put_word_events(s, s->options->models[model]);
        engine_server_answer(s, request, "text/event-stream; charset=utf-8");
    } else if (plain) {
        put_words(s);
        engine_server_answer(s, request, "text/plain; charset=utf-8");
    } else {
        buf_add_text(&s->out, "{\"text\":\"");
        put_words(s);
        buf_printf(&s->out,
                   "\",\"usage\":{\"type\":\"duration\",\"seconds\":%" PRIu64
                   "}}",
                   seconds);
        engine_server_answer(s, request, "application/json");
    }
}

static void
put_number(struct buf *out, uint32_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(number >> (8 * i));
        buf_add(out, &byte, 1);
    }
}

/* RIFF, one channel of 16 bits. */
static void
put_wav_head(struct buf *out, uint32_t data_bytes)
{
    buf_add_text(out, "RIFF");
    put_number(out, WAV_HEAD_BYTES - 8 + data_bytes, 4);
    buf_add_text(out, "WAVEfmt ");
    put_number(out, 16, 4);
    put_number(out, 1, 2); /* PCM */
    put_number(out, 1, 2);
    put_number(out, RATE, 4);
    put_number(out, RATE * 2, 4);
    put_number(out, 2, 2);
    put_number(out, 16, 2);
    buf_add_text(out, "data");
    put_number(out, data_bytes, 4);
}

/* A tone for each token, whose pitch is the token's. */
static void
put_tones(struct buf *out, const struct engine_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++) {
        uint32_t period = 8 + (uint32_t)(rng_mix(ids->ids[i]) % 56);
        for (uint32_t at = 0; at < TOKEN_SAMPLES; at++) {
            put_number(out, at % period < period / 2 ? 4000 : 0, 2);
        }
    }
}

void
engine_post_speech(struct engine_server *s, struct httpd_request *request)
{
    struct slice body = httpd_body(request);
    struct slice input =
        engine_json_inside(engine_json_raw(body, SLICE("input")));
    struct slice form = engine_json_raw(body, SLICE("response_format"));
    bool pcm = slice_equal(form, SLICE("\"pcm\""));
    struct engine_ids *ids = &s->prompt.ids;
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_OTHER) ||
        !engine_server_find_model(s, request, &model)) {
        return;
    }
    if (input.len == 0 || input.len > SPEECH_MAX) {
        httpd_error(request, 400, "bad_request",
                    "`input` must be a text of at most 4096 bytes");
        return;
    }
    if (form.len != 0 && !pcm && !slice_equal(form, SLICE("\"wav\""))) {
        httpd_error(request, 400, "bad_request",
                    "`response_format` must be wav or pcm");
        return;
    }
    ids->count = 0;
    ids->failed = false;
    engine_ids_add_text(ids, input);
    if (!pcm) {
        put_wav_head(&s->out, (uint32_t)ids->count * TOKEN_SAMPLES * 2);
    }
    put_tones(&s->out, ids);
    s->out.failed |= ids->failed;
    engine_server_answer(s, request, pcm ? "audio/pcm" : "audio/wav");
}
