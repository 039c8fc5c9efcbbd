/*
 * The objects that clang's thread-safety analysis takes for thread roles.
 */
#include "index/base/role.h"

struct role role_control;
struct role role_lane;
struct role role_disk;
