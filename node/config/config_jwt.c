/* Tokens: what the configuration says of them. */
#include "node/config/config_jwt.h"

#include <string.h>

#include "node/config/config_access.h"
#include "node/config/config_apply_internal.h"

_Static_assert(KEYS_CLAIM_MAX == CONFIG_TEXT_MAX, "claims as configured");
_Static_assert(KEYS_NAME_MAX == CONFIG_LABEL_MAX, "tenants as configured");

bool
config_jwt_url(const struct config_jwt *jwt, struct url *url)
{
    return strstr(jwt->jwks, "://") != NULL &&
           url_parse_web(slice_of(jwt->jwks), url) == NULL && url->tls;
}

struct keys_rules
config_jwt_rules(const struct config_jwt *jwt)
{
    struct keys_rules rules = {.leeway_s = jwt->leeway_ms / 1000};

    memcpy(rules.issuer, jwt->issuer, sizeof(rules.issuer));
    memcpy(rules.audience, jwt->audience, sizeof(rules.audience));
    memcpy(rules.tenant_claim, jwt->tenant_claim, sizeof(rules.tenant_claim));
    memcpy(rules.default_tenant, jwt->default_tenant,
           sizeof(rules.default_tenant));
    return rules;
}

struct keys_jwks *
config_jwt_load(const struct config_jwt *jwt, struct config_errors *errors)
{
    struct keys_rules rules = config_jwt_rules(jwt);
    struct keys_jwks *jwks = NULL;
    struct buf bytes;
    const char *why;

    buf_init(&bytes, KEYS_JWKS_BYTES_MAX + 1);
    if (config_read_regular(jwt->jwks, &bytes, errors)) {
        jwks = keys_jwks_new(buf_slice(&bytes), &rules, &why);
        if (jwks == NULL) {
            config_fault(errors, jwt->jwks, "%s", why);
        }
    }
    buf_fini(&bytes);
    return jwks;
}

void
config_jwt_check(const struct config *config, struct config_errors *errors)
{
    const char *jwks = config->jwt.jwks;
    struct url url;

    if (jwks[0] == '\0') {
        return;
    }
    if (config->keys.file[0] == '\0') {
        config_fault(errors, "jwt.jwks",
                     "wants keys.file, whose tenants the tokens name");
    }
    if (strstr(jwks, "://") != NULL && !config_jwt_url(&config->jwt, &url)) {
        config_fault(errors, "jwt.jwks",
                     "expected a file, or https://HOST[:PORT]/PATH");
    }
}

void
config_jwt_files(const struct config *config, struct config_errors *errors)
{
    struct url url;

    config_check_file("jwt.ca_file", config->jwt.ca_file, errors);
    if (config->jwt.jwks[0] != '\0' && !config_jwt_url(&config->jwt, &url)) {
        keys_jwks_free(config_jwt_load(&config->jwt, errors));
    }
}
