/* Names under `late.test` for a process that loads this by LD_PRELOAD: all mean 127.0.0.1, and while a switch is on
   a look-up waits until the switch is off. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <time.h>

#include "switches.h"

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    static look_up *real;
    const struct timespec pause = {0, 5000000};
    if (!real) real = (look_up *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "late.test")) return real(name, service, hints, found);
    if (switches()) {
        switches()[LOOK_UPS]++;
        while (switches()[NAMES_LATE]) nanosleep(&pause, 0);
    }
    return real("127.0.0.1", service, hints, found);
}
