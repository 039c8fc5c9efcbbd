/*
 * /admin/explain, between the file that asks for what is not known
 * (admin_explain_ask.c) and the one that tells what would become of a request
 * (admin_explain.c).
 *
 * Role: shell, private to node/control. Owns: nothing. Thread: control. Limits:
 * ADMIN_BYTES_MAX. Errors: none.
 */
#ifndef NODE_ADMIN_EXPLAIN_INTERNAL_H
#define NODE_ADMIN_EXPLAIN_INTERNAL_H

#include "node/control/admin.h"

#define TENANT_FIELD SLICE("x-kvasir-tenant")

/* Who would ask; without the header, or by a name that is none, the first. */
uint32_t admin_explain_tenant(const struct control *control,
                              const struct httpd_request *request);

/* Answers for the request that control->explain has read, as of that world. */
void admin_explain_answer(struct control *control,
                          const struct route_world *world,
                          const char *tokens_by, struct httpd_request *request);

#endif
