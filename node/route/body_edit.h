/* Some bytes of a body that give way to others. Role: core. Owns: nothing. */
#ifndef NODE_BODY_EDIT_H
#define NODE_BODY_EDIT_H

#include <stdint.h>

#include "index/base/slice.h"

struct body_edit {
    uint32_t at;
    uint32_t cut;
    struct slice text;
};

#endif
