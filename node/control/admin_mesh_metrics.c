/* The mesh's part of /metrics: kvasir_mesh_*, kvasir_gossip_*,
 * kvasir_roster_*. */
#include <inttypes.h>
#include <stddef.h>

#include "node/control/admin_mesh.h"
#include "node/peers/peers.h"
#include "node/text/prom_out.h"

/* A counter of a struct of them. */
struct row {
    const char *name; /* between its family's prefix and _total */
    size_t offset;    /* of a uint64_t */
    const char *help;
};

static uint64_t
number_at(const void *stats, size_t offset)
{
    uint64_t number;

    memcpy(&number, (const char *)stats + offset, sizeof number);
    return number;
}

static void
put_rows(struct buf *out, const char *prefix, const struct row *rows,
         size_t count, const void *stats)
{
    for (size_t i = 0; i < count; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s_%s_total", prefix, rows[i].name);
        prom_out_single(out, name, "counter", rows[i].help,
                        number_at(stats, rows[i].offset));
    }
}

#define PUT_ROWS(out, prefix, rows, stats) \
    put_rows(out, prefix, rows, sizeof(rows) / sizeof(rows)[0], stats)

static void
put_labelled(struct buf *out, const char *name, const char *label,
             const char *value, uint64_t number)
{
    buf_printf(out, "%s{%s=\"", name, label);
    prom_out_label(out, value);
    buf_printf(out, "\"} %" PRIu64 "\n", number);
}

/* clang-format off */
#define AT(member) offsetof(struct mesh_link_stats, member)
static const struct row link_rows[] = {
    {"frames_sent", AT(frames_sent), "Frames sent to other nodes"},
    {"bytes_sent", AT(bytes_sent), "Bytes sent to other nodes"},
    {"frames_received", AT(frames_received), "Frames received in order"},
    {"bytes_received", AT(bytes_received), "Bytes of them"},
    {"frames_dropped", AT(frames_dropped), "Deltas that waited when a link was full or broke"},
    {"frames_stale", AT(frames_stale), "Short frames that waited for a connection too long"},
    {"frames_lost", AT(frames_lost), "Gaps in what others sent"},
    {"frames_unknown", AT(frames_unknown), "Frames of a later version's types"},
    {"sends_full", AT(sends_full), "Frames that a full link did not take"},
    {"dials", AT(dials), "Connections tried to other nodes"},
    {"link_ups", AT(ups), "Links that came up"},
    {"link_downs", AT(downs), "Links that broke"},
    {"inbox_pauses", AT(pauses), "Times that received frames had no room"},
};
#undef AT

#define AT(member) offsetof(struct member_stats, member)
static const struct row member_rows[] = {
    {"sent", AT(sent), "Messages of the membership sent"},
    {"received", AT(received), "Messages of the membership received"},
    {"sends_dropped", AT(sends_dropped), "Messages dropped because the queue was full"},
    {"probes", AT(probes), "Living members probed"},
    {"probes_failed", AT(probes_failed), "Probes without an answer"},
    {"suspicions", AT(suspicions), "Members suspected"},
    {"refutations", AT(refutations), "Times that this node refuted a suspicion of itself"},
    {"full", AT(full), "Members there was no room for"},
    {"relays_dropped", AT(relays_dropped), "Probes for other nodes dropped because there were too many"},
    {"woken", AT(woken), "Times that this process had been stopped"},
};
#undef AT

#define AT(member) offsetof(struct cluster_stats, member)
static const struct row cluster_rows[] = {
    {"bodies_in", AT(frames_in), "Bodies of frames taken"},
    {"bodies_bad", AT(frames_bad), "Bodies that made no sense"},
    {"bodies_stranger", AT(frames_stranger), "Bodies from senders that are not up"},
    {"bodies_unknown", AT(frames_unknown), "Bodies of a later version's kinds"},
    {"reads_begun", AT(reads_begun), "Workers whose events this node began to read"},
    {"reads_ended", AT(reads_ended), "Workers whose events this node stopped reading"},
};
#undef AT

#define AT(member) offsetof(struct peers_stats, member)
static const struct row peers_rows[] = {
    {"sends_refused", AT(sends_refused), "Bodies dropped because the link was full or not up"},
    {"sends_bad", AT(sends_bad), "Bodies that no link can take"},
    {"sends_no_memory", AT(sends_no_memory), "Bodies dropped for lack of memory"},
    {"lookups_full", AT(lookups_full), "Lookups not begun because too many waited"},
    {"links_retried", AT(links_retried), "Links to living members that were begun anew"},
};
#undef AT

#define AT(member) offsetof(struct discover_stats, member)
static const struct row discover_rows[] = {
    {"lookups", AT(lookups), "Names looked up to find other nodes"},
    {"lost", AT(lost), "Lookups that were never answered"},
    {"hints", AT(hints), "Addresses given to the membership, each time again"},
    {"unusable", AT(unusable), "Addresses found where no node can be"},
    {"full", AT(full), "Addresses found that there was no room for"},
    {"forgotten", AT(forgotten), "Addresses that answers left out for long"},
};
#undef AT

#define AT(member) offsetof(struct gossip_stats, member)
static const struct row gossip_rows[] = {
    {"frames_in", AT(frames_in), "Frames taken from peers"},
    {"bytes_in", AT(bytes_in), "Bytes of them"},
    {"frames_out", AT(frames_out), "Frames for peers"},
    {"bytes_out", AT(bytes_out), "Bytes of them"},
    {"frames_bad", AT(frames_bad), "Malformed frames"},
    {"frames_stranger", AT(frames_stranger), "Frames from senders that are not up"},
    {"frames_unknown", AT(frames_unknown), "Frames of another version"},
    {"sends_dropped", AT(sends_dropped), "Frames dropped because too many waited"},
    {"no_memory", AT(no_memory), "Frames lost for lack of memory"},
    {"records_local", AT(records_local), "Records that this node read from engines"},
    {"records_pushed", AT(records_pushed), "Records pushed to peers"},
    {"records_applied", AT(records_applied), "Records applied to the index"},
    {"push_bytes", AT(push_bytes), "Bytes of pushed deltas, as sent to one peer"},
    {"relays_out", AT(relays_out), "Pushes of others passed on to a peer"},
    {"relays_lost", AT(relays_lost), "Pushes that could not be passed on to a peer"},
    {"dropped_old", AT(dropped_old), "Records that were there already"},
    {"dropped_epoch", AT(dropped_epoch), "Records of a lower epoch"},
    {"dropped_unknown", AT(dropped_unknown), "Records of unknown streams"},
    {"dropped_follower", AT(dropped_follower), "Records of a reading that does not lead"},
    {"fingerprint_conflicts", AT(fingerprint_conflicts), "Records that differ from the known record at their position"},
    {"gaps", AT(gaps), "Gaps found in streams"},
    {"pulls", AT(pulls), "Questions for missing records"},
    {"pulls_answered", AT(pulls_answered), "Questions of peers answered"},
    {"pulls_lost", AT(pulls_lost), "Questions that no log reached"},
    {"epochs_minted", AT(epochs_minted), "Epochs begun here"},
    {"epochs_adopted", AT(epochs_adopted), "Epochs taken over from peers"},
    {"rereads", AT(rereads), "Streams read again from their start"},
    {"epochs_raised", AT(epochs_raised), "Epochs that won over a higher one that knew less"},
    {"takeovers", AT(takeovers), "Streams led by a partial reading because there was no better one"},
    {"transfers", AT(transfers), "States of streams asked of peers"},
    {"transfers_done", AT(transfers_done), "... that came whole"},
    {"transfers_failed", AT(transfers_failed), "... that broke off"},
    {"pages_in", AT(pages_in), "Pages of state received"},
    {"pages_out", AT(pages_out), "Pages of state sent"},
    {"pages_refused", AT(pages_refused), "Pages that could not be sent"},
    {"vectors_in", AT(vectors_in), "Version vectors received"},
    {"summaries_equal", AT(summaries_equal), "Comparisons with a peer that found nothing"},
    {"summaries_differ", AT(summaries_differ), "Comparisons that found a difference"},
    {"digest_mismatches", AT(digest_mismatches), "Complete states that differ at equal positions"},
    {"beliefs_out", AT(beliefs_out), "Decisions sent to peers"},
    {"beliefs_in", AT(beliefs_in), "Decisions of peers"},
    {"beliefs_dropped", AT(beliefs_dropped), "Decisions dropped in favour of newer ones"},
    {"expected_out", AT(expected_out), "Prompts in tokens sent to peers"},
    {"expected_in", AT(expected_in), "Prompts in tokens that peers sent"},
    {"expected_dropped", AT(expected_dropped), "Prompts in tokens dropped in favour of newer ones"},
    {"log_spills", AT(log_spills), "Records applied past a full log"},
    {"log_dropped", AT(log_dropped), "Records that the logs gave up"},
};
#undef AT

#define AT(member) offsetof(struct roster_stats, member)
static const struct row roster_rows[] = {
    {"frames_in", AT(frames_in), "Frames about workers taken"},
    {"frames_out", AT(frames_out), "Frames about workers for peers"},
    {"frames_bad", AT(frames_bad), "Malformed frames"},
    {"merged", AT(merged), "Entries of workers that were newer"},
    {"stale", AT(stale), "Entries that were not"},
    {"full", AT(full), "Entries that there was no room for"},
    {"contradicted", AT(contradicted), "Entries of older configurations than this node's"},
    {"summaries_equal", AT(summaries_equal), "Comparisons with a peer that found nothing"},
    {"summaries_differ", AT(summaries_differ), "Comparisons that found a difference"},
};
#undef AT
/* clang-format on */

static void
put_member_states(struct buf *out, const struct member_table *table)
{
    uint64_t counts[MEMBER_LEFT + 1] = {0};
    struct member_info member;

    for (uint32_t at = 0; member_get(table, at, &member); at++) {
        counts[member.update.state]++;
    }
    prom_out_head(out, "kvasir_mesh_members", "gauge",
                  "Members by their state, this node among them");
    for (unsigned state = 0; state <= MEMBER_LEFT; state++) {
        put_labelled(out, "kvasir_mesh_members", "state",
                     member_state_name((enum member_state)state),
                     counts[state]);
    }
}

static void
put_link_stats(struct buf *out, struct mesh_link *link)
{
    struct mesh_link_stats stats = {0};

    if (link != NULL) {
        mesh_link_stats(link, &stats);
    }
    prom_out_single(out, "kvasir_mesh_links", "gauge",
                    "Addresses of other nodes that are dialled", stats.peers);
    prom_out_single(out, "kvasir_mesh_links_up", "gauge",
                    "Links that are up both ways", stats.peers_up);
    prom_out_single(out, "kvasir_mesh_inbox_peak_bytes", "gauge",
                    "Most bytes received and not yet taken, ever",
                    stats.inbox_peak_bytes);
    prom_out_single(out, "kvasir_mesh_queued_frames", "gauge",
                    "Frames that wait to be sent",
                    link != NULL ? mesh_link_waiting(link, NULL) : 0);
    prom_out_single(
        out, "kvasir_mesh_certificate_expiry_timestamp_seconds", "gauge",
        "When this node's certificate ends; 0: no TLS",
        (uint64_t)(stats.certificate_expiry_s > 0 ? stats.certificate_expiry_s
                                                  : 0));
    PUT_ROWS(out, "kvasir_mesh", link_rows, &stats);
    prom_out_head(out, "kvasir_mesh_refused_total", "counter",
                  "Connections closed or not made, by reason");
    for (unsigned reason = 0; reason < MESH_REFUSALS; reason++) {
        put_labelled(out, "kvasir_mesh_refused_total", "reason",
                     mesh_refusal_name((enum mesh_refusal)reason),
                     stats.refused[reason]);
    }
}

static void
put_discover_stats(struct buf *out, const struct discover *discover)
{
    struct discover_stats stats;

    discover_stats(discover, &stats);
    PUT_ROWS(out, "kvasir_mesh_discover", discover_rows, &stats);
    prom_out_single(out, "kvasir_mesh_discover_addresses", "gauge",
                    "Addresses known from configuration and DNS",
                    stats.addresses);
    prom_out_head(out, "kvasir_mesh_discover_answers_total", "counter",
                  "Lookups by how they ended");
    for (unsigned i = DISCOVER_FOUND; i < DISCOVER_OUTCOMES; i++) {
        put_labelled(out, "kvasir_mesh_discover_answers_total", "outcome",
                     discover_outcome_name((enum discover_outcome)i),
                     stats.answers[i]);
    }
}

static void
put_cluster_stats(struct buf *out, struct cluster *cluster)
{
    struct cluster_stats stats;

    cluster_stats(cluster, &stats);
    prom_out_head(out, "kvasir_mesh_ready", "gauge",
                  "1 for how ready the mesh is");
    for (unsigned i = CLUSTER_CATCHING_UP; i <= CLUSTER_LATE; i++) {
        put_labelled(out, "kvasir_mesh_ready", "how",
                     cluster_ready_name((enum cluster_ready)i),
                     cluster_ready(cluster) == (enum cluster_ready)i);
    }
    prom_out_single(out, "kvasir_mesh_peers_up", "gauge",
                    "Living members whose links are up", stats.peers_up);
    prom_out_single(out, "kvasir_mesh_reading", "gauge",
                    "Workers whose events this node reads", stats.reading);
    prom_out_single(out, "kvasir_mesh_health", "gauge",
                    "Local health: 0 is good, 7 misses most answers",
                    member_health(cluster_members(cluster)));
    PUT_ROWS(out, "kvasir_mesh", cluster_rows, &stats);
}

static void
put_gossip_stats(struct buf *out, const struct gossip *gossip)
{
    struct gossip_stats stats;
    struct gossip_status status;
    uint64_t stale = 0;
    uint64_t behind = 0;

    gossip_stats(gossip, &stats);
    for (uint32_t at = 0; gossip_status(gossip, at, &status); at++) {
        stale += status.stale;
        behind += status.pos_known > status.pos
                      ? (status.pos_known >> 8) - (status.pos >> 8)
                      : 0;
    }
    prom_out_single(out, "kvasir_gossip_streams", "gauge", "Streams replicated",
                    stats.streams);
    prom_out_single(out, "kvasir_gossip_streams_stale", "gauge",
                    "Streams that are known to be behind", stale);
    prom_out_single(out, "kvasir_gossip_behind_batches", "gauge",
                    "Batches that someone is known to have and this node not",
                    behind);
    prom_out_single(out, "kvasir_gossip_names_bytes", "gauge",
                    "Memory of engines' names for blocks, of all streams",
                    stats.names_bytes);
    prom_out_single(out, "kvasir_gossip_names_lost_total", "counter",
                    "Times that a stream's names were unknown from then on",
                    stats.names_lost);
    prom_out_single(out, "kvasir_gossip_log_bytes", "gauge",
                    "Memory of the delta logs", stats.log_bytes);
    PUT_ROWS(out, "kvasir_gossip", gossip_rows, &stats);
}

static void
put_roster_stats(struct buf *out, const struct roster *roster)
{
    struct roster_stats stats;

    roster_stats(roster, &stats);
    prom_out_single(out, "kvasir_roster_entries", "gauge",
                    "Workers the nodes tell each other of, removed ones "
                    "included",
                    stats.entries);
    PUT_ROWS(out, "kvasir_roster", roster_rows, &stats);
}

void
admin_put_mesh_metrics(struct control *control, struct buf *out)
{
    struct cluster *cluster = control_cluster(control);
    const struct member_table *members = cluster_members(cluster);
    struct peers_stats stats;

    peers_stats(control->peers, &stats);
    put_member_states(out, members);
    PUT_ROWS(out, "kvasir_mesh_member", member_rows, member_stats(members));
    put_cluster_stats(out, cluster);
    put_link_stats(out, peers_link(control->peers));
    prom_out_single(out, "kvasir_mesh_links_missing", "gauge",
                    "Living members without a link for 15 s",
                    stats.links_missing);
    PUT_ROWS(out, "kvasir_mesh", peers_rows, &stats);
    put_discover_stats(out, cluster_discover(cluster));
    put_gossip_stats(out, cluster_gossip(cluster));
    put_roster_stats(out, cluster_roster(cluster));
}
