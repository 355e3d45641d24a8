/* Wall clock that jumps, for a process that loads this by LD_PRELOAD: an hour early, right, an hour late in turn,
   always or while a switch is on.
   It stands in for a clock that a time service sets; the monotonic clock is left alone, as the system leaves it. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "switches.h"

#define HALF_SECOND_NS 500000000LL

static int real_time(clockid_t clock, struct timespec *found) { return (int)syscall(SYS_clock_gettime, clock, found); }

int clock_gettime(clockid_t clock, struct timespec *found) {
    struct timespec since;
    int failed = real_time(clock, found);
    if (failed || clock != CLOCK_REALTIME || (switches() && !switches()[CLOCK_JUMPS])) return failed;
    real_time(CLOCK_MONOTONIC, &since);
    found->tv_sec += 3600 * ((since.tv_sec * 1000000000LL + since.tv_nsec) / HALF_SECOND_NS % 3 - 1);
    return 0;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
