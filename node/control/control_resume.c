/* Whether a stream may go on at another worker: resume_may.h's word on the request,
 * and what the workers are. */
#include "node/control/control_resume.h"

#include "node/dialect/dialect.h"
#include "node/fleet/probe.h"
#include "node/route/resume_may.h"
#include "node/route/shared.h"

#define CHAT_TIMES 8U /* as long as the request: arguments are quoted again */

/* By which of the two it is read. */
static enum scan_api
api_of(const struct scan *scan)
{
    return scan->api == SCAN_API_TEXT || (scan->api == SCAN_API_GUESSED &&
                                          scan->shape != SCAN_MESSAGES)
               ? SCAN_API_TEXT
               : SCAN_API_CHAT;
}

/* Workers but that one that could go on with a chat, or with a text. */
static uint32_t
count_others(struct control *control, const struct route_world *world,
             uint32_t worker)
{
    const struct scan *scan = &control->explain.scan;
    struct worker_set foreign;
    struct worker_set able = route_servers(&control->explain, world, &foreign);
    uint32_t count = 0;

    able = worker_set_and(&able, &world->view->eligible);
    WORKER_SET_EACH (slot, &able) {
        count += slot != worker && resume_suits(world->view->worker[slot]->kind,
                                                api_of(scan), scan->greedy);
    }
    return count;
}

/* Into *pass and *member why a request with that body, as engines get it, is not
 * continued, if so. */
static void
judge_members(struct slice body, enum scan_api api, enum resume_pass *pass,
              struct slice *member)
{
    if (!resume_keeps(body, api, member)) {
        *pass = RESUME_MEMBER;
    }
}

/* The same of one of another API: of the chat that it becomes, if its engine gets
 * one. The name is of that chat. */
static void
judge_translated(const struct route_world *world, uint32_t worker,
                 struct slice body, bool messages, struct buf *chat,
                 enum resume_pass *pass, struct slice *member)
{
    enum fleet_lack lack =
        messages ? FLEET_LACKS_MESSAGES : FLEET_LACKS_RESPONSES;
    const char *why;

    if (worker == WORKER_NONE ||
        !fleet_board_lacks(world->board, lack, worker, probe_now_us())) {
        *pass = RESUME_OWN_PATH;
    } else if (dialect_request(messages ? DIALECT_MESSAGES : DIALECT_RESPONSES,
                               body, SLICE(""), false, chat, &why)) {
        judge_members(buf_slice(chat), SCAN_API_CHAT, pass, member);
    } else {
        *pass = RESUME_PATH; /* there is no such chat */
    }
}

void
control_resume_explain(struct control *control, const struct route_world *world,
                       uint32_t worker, struct slice body,
                       struct json_out *json)
{
    const struct scan *scan = &control->explain.scan;
    const struct config_retries *retries =
        &((const struct node_live *)publish_get(&control->node->live))->retries;
    enum resume_pass pass =
        resume_judge(scan, body.len, (enum resume_rule)retries->streams,
                     retries->after_send != 0);
    bool messages = scan->api == SCAN_API_MESSAGES;
    struct slice member = SLICE("");
    struct buf chat;

    buf_init(&chat, CHAT_TIMES * RESUME_REQUEST_MAX);
    uint32_t others = count_others(control, world, worker);
    if (pass == RESUME_MAY && (messages || scan->api == SCAN_API_RESPONSES)) {
        judge_translated(world, worker, body, messages, &chat, &pass, &member);
    } else if (pass == RESUME_MAY) {
        judge_members(body, api_of(scan), &pass, &member);
    }
    if (pass == RESUME_MAY && others == 0) {
        pass = RESUME_ALONE;
    }
    json_out_key(json, "resume");
    json_out_object_begin(json);
    json_out_put_bool(json, "may", pass == RESUME_MAY);
    json_out_put_text(json, "why_not", resume_pass_name(pass));
    json_out_put_slice(json, "member", member);
    json_out_put_uint(json, "others", others);
    json_out_object_end(json);
    buf_fini(&chat);
}
