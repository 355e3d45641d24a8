/*
 * Contention kernels: each process presses on one shared resource of the machine, by a level from 0 to 1.
 *
 *     probe-kernels SOURCE CONTROL_FD PARENT_PID CPU SIZE_BYTES FOLDER
 *
 * The control descriptor is a page of shared memory (`struct control`). The parent writes the level and the
 * stop flag; this process writes counters. It ends with its parent, on the stop flag, and leaves no file.
 *
 * There are two kinds of kernels:
 * 1. Share of time: in each period the kernel works for `level` of the period and sleeps for the rest. Time
 *    that a burst took too long is subtracted from the next ones.
 * 2. Footprint: in each period the kernel touches `level` of a structure once, every line or page of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, ROUNDS = 256, DISK_CHUNK = 128 << 10, STREAM_CHUNK = 64 << 10, NET_CHUNK = 64 << 10 };
enum { CODE_BLOCKS = 1024, GROWTH = 32 << 20, TOUCHED_PAGES = 1024 };
static const int64_t SECOND = 1000000000, IDLE_NS = 10000000;

struct control {
    volatile double level;       /* written by the parent, 0 to 1 */
    volatile uint64_t stop;      /* written by the parent */
    volatile uint64_t operations;
    volatile uint64_t busy_ns;   /* time within bursts, by the kernel's clock */
    volatile uint64_t footprint; /* bytes that are held; only of memory-capacity */
    volatile uint64_t ready;
};

static volatile uint64_t sink;
static unsigned char *area;
static size_t area_bytes;
static size_t unit;      /* distance of two touched places, bytes */
static size_t places;    /* number of places in the area */
static size_t stride;    /* places between two touches, prime to their number: every place is met once a round */
static size_t at;

static int64_t read_ns(clockid_t clock) {
    struct timespec moment;
    clock_gettime(clock, &moment);
    return (int64_t)moment.tv_sec * SECOND + moment.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

static unsigned char *reserve(size_t bytes, int advice) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail("memory");
    madvise(memory, bytes, advice);
    return memory;
}

static size_t gcd(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- processor ---- */

static uint64_t do_integers(void) {
    uint64_t a = sink | 1, b = a + 2, c = a + 4, d = a + 6, e = a + 8, f = a + 10;
    for (int round = 0; round < ROUNDS * 8; round++) {
        a = a * 0x9E3779B97F4A7C15u + 1;
        b ^= b << 13;
        c += c >> 7;
        d = d * 5 + 3;
        e ^= e >> 17;
        f += f << 3;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    sink = a ^ b ^ c ^ d ^ e ^ f;
    return ROUNDS * 8;
}

static uint64_t do_floats(void) {
    double x[8];
    for (int k = 0; k < 8; k++)
        x[k] = 1.0 + k + (double)(sink & 1);
    for (int round = 0; round < ROUNDS * 4; round++)
        for (int k = 0; k < 8; k++)
            x[k] = x[k] * 0.999999 + 1e-6;
    double sum = 0;
    for (int k = 0; k < 8; k++)
        sum += x[k];
    sink = (uint64_t)sum;
    return ROUNDS * 4;
}

static uint64_t do_branches(void) {
    static uint64_t state = 88172645463325252u;
    uint64_t r = state, taken = 0, passed = 1;
    for (int round = 0; round < ROUNDS * 4; round++) {
        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        if (r & 1) { /* no predictor learns this */
            taken += r;
            __asm__ volatile("" : "+r"(taken));
        } else {
            passed ^= r;
            __asm__ volatile("" : "+r"(passed));
        }
        if (r & 256) {
            passed += 3;
            __asm__ volatile("" : "+r"(passed));
        } else {
            taken ^= 5;
            __asm__ volatile("" : "+r"(taken));
        }
    }
    state = r;
    sink = taken ^ passed;
    return ROUNDS * 4;
}

/* ---- instruction cache: many small functions, each on a line of its own ---- */

#define BLOCK(n) \
    __attribute__((noinline, aligned(64))) static uint64_t block_##n(uint64_t x) { \
        return (x ^ (0x1000000u + n)) * 3 + __COUNTER__; \
    }
#define B4(n) BLOCK(n##0) BLOCK(n##1) BLOCK(n##2) BLOCK(n##3)
#define B16(n) B4(n##0) B4(n##1) B4(n##2) B4(n##3)
#define B64(n) B16(n##0) B16(n##1) B16(n##2) B16(n##3)
#define B256(n) B64(n##0) B64(n##1) B64(n##2) B64(n##3)
B256(10) B256(11) B256(12) B256(13)
#define N4(n) block_##n##0, block_##n##1, block_##n##2, block_##n##3,
#define N16(n) N4(n##0) N4(n##1) N4(n##2) N4(n##3)
#define N64(n) N16(n##0) N16(n##1) N16(n##2) N16(n##3)
#define N256(n) N64(n##0) N64(n##1) N64(n##2) N64(n##3)
static uint64_t (*const blocks[CODE_BLOCKS])(uint64_t) = {N256(10) N256(11) N256(12) N256(13)};

static uint64_t call_blocks(double level) {
    size_t wanted = (size_t)(level * (double)places + 0.5);
    uint64_t x = sink;
    for (size_t k = 0; k < wanted; k++) {
        x = blocks[at](x);
        at += stride;
        if (at >= places)
            at -= places;
    }
    sink = x;
    return wanted;
}

/* ---- caches and address translation ---- */

static uint64_t touch_places(double level) {
    size_t wanted = (size_t)(level * (double)places + 0.5);
    uint64_t sum = 0;
    /* The same places at one level, in an order that no prefetcher follows. */
    size_t place = 0;
    for (size_t k = 0; k < wanted; k++) {
        size_t shift = unit == PAGE ? (place * LINE) % PAGE : 0; /* one line of each page, another in each */
        sum += *(volatile unsigned char *)(area + place * unit + shift);
        place += stride;
        if (place >= places)
            place -= places;
    }
    sink = sum;
    return wanted;
}

static uint64_t stream(void) {
    const double *numbers = (const double *)(area + at);
    double a = 0, b = 0, c = 0, d = 0;
    for (size_t k = 0; k < STREAM_CHUNK / sizeof(double); k += 4) {
        a += numbers[k];
        b += numbers[k + 1];
        c += numbers[k + 2];
        d += numbers[k + 3];
    }
    sink = (uint64_t)(a + b + c + d);
    at += STREAM_CHUNK;
    if (at + STREAM_CHUNK > area_bytes)
        at = 0;
    return STREAM_CHUNK;
}

/* ---- memory capacity ---- */

static uint64_t hold_memory(struct control *control, double level) {
    size_t wanted = (size_t)(level * (double)area_bytes) / GROWTH * GROWTH, held = control->footprint;
    if (wanted > held) {
        for (size_t page = held; page < held + GROWTH; page += PAGE)
            area[page] = 1;
        control->footprint = held + GROWTH;
        return GROWTH / PAGE;
    }
    if (wanted < held) {
        madvise(area + wanted, held - wanted, MADV_DONTNEED);
        control->footprint = held = wanted;
    }
    /* Pages that are held are visited in turn, so that they are not taken for idle. */
    size_t visits = held / PAGE < TOUCHED_PAGES ? held / PAGE : TOUCHED_PAGES;
    for (size_t k = 0; k < visits; k++) {
        at = at + PAGE < held ? at + PAGE : 0;
        ((volatile unsigned char *)area)[at] = 1;
    }
    return visits;
}

/* ---- disk ---- */

static int disk;
static off_t disk_bytes, disk_at;
static unsigned char *disk_buffer;

static void open_disk(const char *folder, size_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/kwiken-probe-XXXXXX", folder);
    disk = mkstemp(path);
    if (disk < 0)
        fail(folder);
    unlink(path); /* the file is gone with this process, however that ends */
    disk_buffer = reserve(DISK_CHUNK, MADV_NORMAL);
    memset(disk_buffer, 0x5a, DISK_CHUNK);
    for (disk_bytes = 0; (size_t)disk_bytes + DISK_CHUNK <= bytes; disk_bytes += DISK_CHUNK)
        if (write(disk, disk_buffer, DISK_CHUNK) != DISK_CHUNK)
            fail(folder);
    if (fdatasync(disk) != 0)
        fail(folder);
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", disk);
    int direct = open(self, O_RDONLY | O_DIRECT);
    if (direct >= 0 && pread(direct, disk_buffer, DISK_CHUNK, 0) == DISK_CHUNK)
        disk = direct;
}

static uint64_t read_disk(void) {
    ssize_t got = pread(disk, disk_buffer, DISK_CHUNK, disk_at);
    if (got <= 0)
        fail("read");
    posix_fadvise(disk, disk_at, DISK_CHUNK, POSIX_FADV_DONTNEED); /* where the file system has no direct reads */
    disk_at = disk_at + DISK_CHUNK < disk_bytes ? disk_at + DISK_CHUNK : 0;
    return (uint64_t)got;
}

/* ---- network: a stream over the loopback device ---- */

static int out_socket, in_socket;
static unsigned char *net_buffer;

static void *drain(void *ignored) {
    unsigned char *buffer = reserve(NET_CHUNK, MADV_NORMAL);
    (void)ignored;
    while (recv(in_socket, buffer, NET_CHUNK, 0) > 0) {
    }
    return NULL;
}

static void open_network(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        fail("loopback");
    out_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (out_socket < 0 || connect(out_socket, (struct sockaddr *)&address, sizeof address))
        fail("loopback");
    in_socket = accept(listener, NULL, NULL);
    if (in_socket < 0)
        fail("loopback");
    close(listener);
    net_buffer = reserve(NET_CHUNK, MADV_NORMAL);
    pthread_t reader;
    if (pthread_create(&reader, NULL, drain, NULL))
        fail("thread");
}

static uint64_t send_chunk(void) {
    ssize_t sent = send(out_socket, net_buffer, NET_CHUNK, MSG_NOSIGNAL);
    if (sent <= 0)
        fail("loopback");
    return (uint64_t)sent;
}

/* ---- the table of kernels, and the loop ---- */

enum kind { TIME_SHARE, FOOTPRINT };
enum { ELAPSED = CLOCK_MONOTONIC, PROCESSOR = CLOCK_THREAD_CPUTIME_ID };

struct kernel {
    const char *source;
    enum kind kind;
    clockid_t work; /* clock of a share of time: processor time, or elapsed time where devices do the work */
    /* Clock of `busy_ns`. Elapsed time where a neighbour on the same core is what slows this kernel; processor
       time where the resource is shared by cores, so that waiting for a processor does not count. */
    clockid_t busy;
    int64_t period_ns;
    uint64_t (*chunk)(void);
    uint64_t (*sweep)(double level);
};

static const struct kernel kernels[] = {
    {"cpu-int", TIME_SHARE, PROCESSOR, ELAPSED, 1000000, do_integers, NULL},
    {"cpu-fp", TIME_SHARE, PROCESSOR, ELAPSED, 1000000, do_floats, NULL},
    {"cpu-branch", TIME_SHARE, PROCESSOR, ELAPSED, 1000000, do_branches, NULL},
    {"l1i", FOOTPRINT, ELAPSED, ELAPSED, 1000000, NULL, call_blocks},
    {"l1d", FOOTPRINT, ELAPSED, ELAPSED, 1000000, NULL, touch_places},
    {"l2", FOOTPRINT, ELAPSED, ELAPSED, 5000000, NULL, touch_places},
    {"l3-capacity", FOOTPRINT, ELAPSED, PROCESSOR, 50000000, NULL, touch_places},
    {"l3-bandwidth", TIME_SHARE, PROCESSOR, PROCESSOR, 1000000, stream, NULL},
    {"tlb", FOOTPRINT, ELAPSED, ELAPSED, 1000000, NULL, touch_places},
    {"memory-capacity", FOOTPRINT, ELAPSED, PROCESSOR, 10000000, NULL, NULL},
    {"memory-bandwidth", TIME_SHARE, PROCESSOR, PROCESSOR, 1000000, stream, NULL},
    {"disk", TIME_SHARE, ELAPSED, ELAPSED, 20000000, read_disk, NULL},
    {"network", TIME_SHARE, ELAPSED, ELAPSED, 5000000, send_chunk, NULL},
};

static void prepare(const struct kernel *kernel, size_t bytes, const char *folder) {
    area_bytes = bytes;
    unit = LINE;
    if (!strcmp(kernel->source, "l1i")) {
        places = bytes / LINE < CODE_BLOCKS ? bytes / LINE : CODE_BLOCKS;
    } else if (!strcmp(kernel->source, "disk")) {
        open_disk(folder, bytes);
    } else if (!strcmp(kernel->source, "network")) {
        open_network();
    } else if (!strcmp(kernel->source, "memory-capacity")) {
        area = reserve(bytes + GROWTH, MADV_NORMAL);
    } else if (kernel->kind == FOOTPRINT || kernel->chunk == stream) {
        int pages = !strcmp(kernel->source, "tlb");
        unit = pages ? PAGE : LINE;
        area_bytes = bytes;
        area = reserve(bytes, pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
        memset(area, 0, bytes);
        places = bytes / unit;
    }
    for (stride = places * 618 / 1000 + 1; places > 1 && gcd(stride, places) != 1; stride++) {
    }
}

static void loop(const struct kernel *kernel, struct control *control, pid_t parent) {
    int64_t next = read_ns(CLOCK_MONOTONIC), owed = 0;
    while (!control->stop && getppid() == parent) {
        double level = control->level;
        level = level < 0 ? 0 : level > 1 ? 1 : level;
        int64_t start = read_ns(kernel->busy);
        uint64_t done = 0;
        if (kernel->kind == FOOTPRINT) {
            done = kernel->sweep ? kernel->sweep(level) : hold_memory(control, level);
        } else {
            /* Waiting for the processor is no work: a neighbour does not lower the pressure. */
            owed += (int64_t)(level * (double)kernel->period_ns);
            if (owed > kernel->period_ns)
                owed = kernel->period_ns;
            int64_t worked_from = read_ns(kernel->work), worked = 0;
            while (worked < owed) {
                done += kernel->chunk();
                worked = read_ns(kernel->work) - worked_from;
            }
            owed -= worked;
        }
        control->operations += done;
        control->busy_ns += (uint64_t)(read_ns(kernel->busy) - start);
        control->ready = 1;
        next += level > 0 ? kernel->period_ns : IDLE_NS;
        int64_t now = read_ns(CLOCK_MONOTONIC);
        if (next <= now) {
            next = now; /* behind, or at full level: go on at once */
        } else {
            struct timespec until = {next / SECOND, next % SECOND};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
    }
}

int main(int count, char **words) {
    if (count != 7) {
        fprintf(stderr, "usage: probe-kernels SOURCE CONTROL_FD PARENT_PID CPU SIZE_BYTES FOLDER\n");
        return 2;
    }
    pid_t parent = (pid_t)atol(words[3]);
    int cpu = atoi(words[4]);
    size_t bytes = (size_t)strtoull(words[5], NULL, 10);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        return 0; /* the parent ended while this process started */
    prctl(PR_SET_TIMERSLACK, 1);
    if (cpu >= 0) {
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(cpu, &only);
        if (sched_setaffinity(0, sizeof only, &only))
            fail("processor");
    }
    struct control *control = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(words[2]), 0);
    if (control == MAP_FAILED)
        fail("control");
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        if (!strcmp(kernels[k].source, words[1])) {
            prepare(&kernels[k], bytes, words[6]);
            loop(&kernels[k], control, parent);
            return 0;
        }
    fprintf(stderr, "no kernel %s\n", words[1]);
    return 2;
}
