/*
 * Thread roles as clang capabilities, so that calling the control thread's
 * code from a lane is a compile error under -Wthread-safety.
 *
 *   ON_CONTROL  the one loop that owns every write to the index, the workers'
 *               state and the admin API
 *   ON_LANE     one of the N loops that serve requests; reads only
 *   ON_DISK     the LMDB writer
 *
 * A thread's entry function states what it is with role_is_control() and its
 * like; functions below it say what they need with the attribute. A function
 * without one may run anywhere (ANY_THREAD says so aloud).
 */
#ifndef INDEX_BASE_ROLE_H
#define INDEX_BASE_ROLE_H

#if defined(__clang__)
#define ROLE_ATTRIBUTE(x) __attribute__((x))
#else
#define ROLE_ATTRIBUTE(x)
#endif

/* What a thread is. Of no use at run time. */
struct ROLE_ATTRIBUTE(capability("role")) role {
    char unused;
};

extern struct role role_control;
extern struct role role_lane;
extern struct role role_disk;

#define ON_CONTROL ROLE_ATTRIBUTE(requires_capability(role_control))
#define ON_LANE    ROLE_ATTRIBUTE(requires_capability(role_lane))
#define ON_DISK    ROLE_ATTRIBUTE(requires_capability(role_disk))
#define ANY_THREAD

/*
 * Statements of fact for the analysis; they do nothing at run time.
 */

/* This thread is control. */
static inline void
role_is_control(void) ROLE_ATTRIBUTE(assert_capability(role_control))
{
}

/* This thread is a lane. */
static inline void
role_is_lane(void) ROLE_ATTRIBUTE(assert_capability(role_lane))
{
}

/* This thread is the disk's. */
static inline void
role_is_disk(void) ROLE_ATTRIBUTE(assert_capability(role_disk))
{
}

#endif
