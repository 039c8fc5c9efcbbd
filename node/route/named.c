/* What a request's name stands for. */
#include "node/route/named.h"

#include "node/route/alias.h"

_Static_assert(CONTENT_MODEL_MAX <= CONFIG_MODEL_NAME_MAX, "models' names");

static void
take_alias(struct named *named, const struct config_alias *alias, uint64_t hash)
{
    uint8_t order[CONFIG_ALIAS_TARGETS_MAX];

    alias_order(alias, hash, order);
    named->alias = alias->name;
    named->count = alias->targets_count;
    for (uint32_t i = 0; i < alias->targets_count; i++) {
        named->model[i] = alias->target[order[i]].model;
    }
}

void
named_find(const struct named_names *names, struct slice name,
           const struct content_asked *asked, uint64_t hash,
           struct named *named)
{
    *named = (struct named){.asked = NULL};
    named->judged =
        names->content != NULL && content_judge(names->content, names->scratch,
                                                name, asked, &named->verdict);
    if (named->judged) {
        name = slice_of(named->verdict.model);
    }
    const struct config_alias *alias =
        config_aliases_find(names->aliases, name);
    if (alias != NULL) {
        take_alias(named, alias, hash);
    } else if (named->judged) {
        named->model[0] = named->verdict.model;
        named->count = 1;
    }
    named->asked = named->judged   ? named->verdict.name
                   : alias != NULL ? alias->name
                                   : NULL;
}
