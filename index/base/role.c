#include "index/base/role.h"

struct role role_control;
struct role role_lane;
struct role role_disk;
