/* The mesh's part of /metrics: kvasir_mesh_*, kvasir_gossip_*,
 * kvasir_roster_*. */
#include <inttypes.h>
#include <stddef.h>

#include "node/control/admin_mesh.h"
#include "node/peers/peers.h"
#include "node/text/prom_out.h"

#define PUT_ROWS(out, prefix, rows, stats) \
    prom_out_rows(out, prefix, rows, sizeof(rows) / sizeof(rows)[0], stats)

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
static const struct prom_row link_rows[] = {
    PROM_ONE("frames_sent", AT(frames_sent), "Frames sent to other nodes"),
    PROM_ONE("bytes_sent", AT(bytes_sent), "Bytes sent to other nodes"),
    PROM_ONE("frames_received", AT(frames_received), "Frames received in order"),
    PROM_ONE("bytes_received", AT(bytes_received), "Bytes of them"),
    PROM_FAMILY("frames_unsent", "reason", "Frames that were not sent"),
    PROM_OF("broken", AT(frames_dropped), "deltas that waited when a link was full or broke"),
    PROM_OF("late", AT(frames_stale), "short ones that waited for a connection too long"),
    PROM_OF("full", AT(sends_full), "a full link did not take them"),
    PROM_FAMILY("frames_unread", "reason", "Frames of others that were not read"),
    PROM_OF("gap", AT(frames_lost), "missing in what came"),
    PROM_OF("version", AT(frames_unknown), "of a later version's types"),
    PROM_ONE("dials", AT(dials), "Connections tried to other nodes"),
    PROM_FAMILY("link_changes", "to", "Links that changed"),
    PROM_OF("up", AT(ups), "they came up"),
    PROM_OF("down", AT(downs), "they broke"),
    PROM_ONE("inbox_pauses", AT(pauses), "Times that received frames had no room"),
};
#undef AT

#define AT(member) offsetof(struct member_stats, member)
static const struct prom_row member_rows[] = {
    PROM_ONE("sent", AT(sent), "Messages of the membership sent"),
    PROM_ONE("received", AT(received), "Messages of the membership received"),
    PROM_FAMILY("dropped", "reason", "What there was no room for"),
    PROM_OF("queue", AT(sends_dropped), "messages, in the queue"),
    PROM_OF("relays", AT(relays_dropped), "probes for other nodes"),
    PROM_OF("members", AT(full), "members"),
    PROM_ONE("probes", AT(probes), "Living members probed"),
    PROM_ONE("probes_failed", AT(probes_failed), "Probes without an answer"),
    PROM_ONE("suspicions", AT(suspicions), "Members suspected"),
    PROM_ONE("refutations", AT(refutations), "Times that this node refuted a suspicion of itself"),
    PROM_ONE("woken", AT(woken), "Times that this process had been stopped"),
};
#undef AT

#define AT(member) offsetof(struct cluster_stats, member)
static const struct prom_row cluster_rows[] = {
    PROM_ONE("bodies_in", AT(frames_in), "Bodies of frames taken"),
    PROM_FAMILY("bodies_dropped", "reason", "Bodies of frames dropped"),
    PROM_OF("bad", AT(frames_bad), "they made no sense"),
    PROM_OF("stranger", AT(frames_stranger), "from senders that are not up"),
    PROM_OF("version", AT(frames_unknown), "of a later version's kinds"),
    PROM_ONE("reads_begun", AT(reads_begun), "Workers whose events this node began to read"),
    PROM_ONE("reads_ended", AT(reads_ended), "Workers whose events this node stopped reading"),
};
#undef AT

#define AT(member) offsetof(struct peers_stats, member)
static const struct prom_row peers_rows[] = {
    PROM_FAMILY("sends_dropped", "reason", "Bodies not sent"),
    PROM_OF("link", AT(sends_refused), "it was full or not up"),
    PROM_OF("bad", AT(sends_bad), "no link can take them"),
    PROM_OF("memory", AT(sends_no_memory), "there was none"),
    PROM_ONE("lookups_full", AT(lookups_full), "Lookups not begun because too many waited"),
    PROM_ONE("links_retried", AT(links_retried), "Links to living members that were begun anew"),
};
#undef AT

#define AT(member) offsetof(struct discover_stats, member)
static const struct prom_row discover_rows[] = {
    PROM_ONE("lookups", AT(lookups), "Names looked up to find other nodes"),
    PROM_ONE("lost", AT(lost), "Lookups that were never answered"),
    PROM_ONE("hints", AT(hints), "Addresses given to the membership, each time again"),
    PROM_FAMILY("dropped", "reason", "Addresses found and not used"),
    PROM_OF("unusable", AT(unusable), "no node can be there"),
    PROM_OF("full", AT(full), "there was no room"),
    PROM_OF("forgotten", AT(forgotten), "answers left them out for long"),
};
#undef AT

#define AT(member) offsetof(struct gossip_stats, member)
static const struct prom_row gossip_rows[] = {
    PROM_ONE("frames_in", AT(frames_in), "Frames taken from peers"),
    PROM_ONE("bytes_in", AT(bytes_in), "Bytes of them"),
    PROM_ONE("frames_out", AT(frames_out), "Frames for peers"),
    PROM_ONE("bytes_out", AT(bytes_out), "Bytes of them"),
    PROM_FAMILY("frames_dropped", "reason", "Frames of peers dropped"),
    PROM_OF("bad", AT(frames_bad), "malformed"),
    PROM_OF("stranger", AT(frames_stranger), "from senders that are not up"),
    PROM_OF("version", AT(frames_unknown), "of another version"),
    PROM_OF("memory", AT(no_memory), "there was none"),
    PROM_ONE("sends_dropped", AT(sends_dropped), "Frames dropped because too many waited"),
    PROM_ONE("records_local", AT(records_local), "Records that this node read from engines"),
    PROM_ONE("records_pushed", AT(records_pushed), "Records pushed to peers"),
    PROM_ONE("records_applied", AT(records_applied), "Records applied to the index"),
    PROM_ONE("push_bytes", AT(push_bytes), "Bytes of pushed deltas, as sent to one peer"),
    PROM_ONE("relays_out", AT(relays_out), "Pushes of others passed on to a peer"),
    PROM_ONE("relays_lost", AT(relays_lost), "Pushes that could not be passed on to a peer"),
    PROM_FAMILY("records_dropped", "reason", "Records dropped"),
    PROM_OF("old", AT(dropped_old), "they were there already"),
    PROM_OF("epoch", AT(dropped_epoch), "of a lower epoch"),
    PROM_OF("unknown", AT(dropped_unknown), "of unknown streams"),
    PROM_OF("follower", AT(dropped_follower), "of a reading that does not lead"),
    PROM_ONE("fingerprint_conflicts", AT(fingerprint_conflicts), "Records that differ from the known record at their position"),
    PROM_ONE("gaps", AT(gaps), "Gaps found in streams"),
    PROM_ONE("pulls", AT(pulls), "Questions for missing records"),
    PROM_ONE("pulls_answered", AT(pulls_answered), "Questions of peers answered"),
    PROM_ONE("pulls_lost", AT(pulls_lost), "Questions that no log reached"),
    PROM_FAMILY("epochs", "by", "Epochs"),
    PROM_OF("minted", AT(epochs_minted), "begun here"),
    PROM_OF("adopted", AT(epochs_adopted), "taken over from peers"),
    PROM_OF("raised", AT(epochs_raised), "they won over a higher one that knew less"),
    PROM_ONE("rereads", AT(rereads), "Streams read again from their start"),
    PROM_ONE("takeovers", AT(takeovers), "Streams led by a partial reading because there was no better one"),
    PROM_ONE("transfers", AT(transfers), "States of streams asked of peers"),
    PROM_FAMILY("transfers_ended", "result", "Transfers of state, by their end"),
    PROM_OF("done", AT(transfers_done), "they came whole"),
    PROM_OF("failed", AT(transfers_failed), "they broke off"),
    PROM_ONE("pages_in", AT(pages_in), "Pages of state received"),
    PROM_ONE("pages_out", AT(pages_out), "Pages of state sent"),
    PROM_ONE("pages_refused", AT(pages_refused), "Pages that could not be sent"),
    PROM_ONE("vectors_in", AT(vectors_in), "Version vectors received"),
    PROM_FAMILY("summaries", "result", "Comparisons with a peer"),
    PROM_OF("equal", AT(summaries_equal), "they found nothing"),
    PROM_OF("differ", AT(summaries_differ), "they found a difference"),
    PROM_ONE("digest_mismatches", AT(digest_mismatches), "Complete states that differ at equal positions"),
    PROM_ONE("beliefs_out", AT(beliefs_out), "Decisions sent to peers"),
    PROM_ONE("beliefs_in", AT(beliefs_in), "Decisions of peers"),
    PROM_ONE("beliefs_dropped", AT(beliefs_dropped), "Decisions dropped in favour of newer ones"),
    PROM_ONE("expected_out", AT(expected_out), "Prompts in tokens sent to peers"),
    PROM_ONE("expected_in", AT(expected_in), "Prompts in tokens that peers sent"),
    PROM_ONE("expected_dropped", AT(expected_dropped), "Prompts in tokens dropped in favour of newer ones"),
    PROM_ONE("log_spills", AT(log_spills), "Records applied past a full log"),
    PROM_ONE("log_dropped", AT(log_dropped), "Records that the logs gave up"),
};
#undef AT

#define AT(member) offsetof(struct roster_stats, member)
static const struct prom_row roster_rows[] = {
    PROM_ONE("frames_in", AT(frames_in), "Frames about workers taken"),
    PROM_ONE("frames_out", AT(frames_out), "Frames about workers for peers"),
    PROM_ONE("frames_bad", AT(frames_bad), "Malformed frames"),
    PROM_FAMILY("merges", "outcome", "Entries of workers that others told"),
    PROM_OF("newer", AT(merged), "taken"),
    PROM_OF("stale", AT(stale), "known already"),
    PROM_OF("full", AT(full), "there was no room"),
    PROM_OF("contradicted", AT(contradicted), "of an older configuration than this node's"),
    PROM_FAMILY("summaries", "result", "Comparisons with a peer"),
    PROM_OF("equal", AT(summaries_equal), "they found nothing"),
    PROM_OF("differ", AT(summaries_differ), "they found a difference"),
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
