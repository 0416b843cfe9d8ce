/* NVML's own ABI with GPUs behind it that a test describes, so that the real Python binding is
   exercised. Even GPUs are GeForce cards, which have no ECC, power reading, MIG or row remapping;
   odd ones are H100 cards, which have no fan.

   FAKE_NVML_STATE names a file of lines "WORD NUMBERS", looked at again by nvmlInit and
   nvmlDeviceGetCount when it was replaced (I is a GPU's index; a word that is not known aborts):

       gpus N                  how many there are (2 without a file)
       error CODE              nvmlInit and nvmlDeviceGetCount fail with it
       lost I                  every question about this GPU is answered with "GPU is lost"
       temperature I CELSIUS
       use I PERCENT
       memory I MIB            in use; without it, what the processes hold and 300 for the driver
       mode I MODE             compute mode: 1 and 3 are exclusive, 2 is prohibited
       reasons I BITS          clock event reasons
       ecc I A B C D           volatile corrected and uncorrected, aggregate the same
       remap I A B C D         rows remapped for corrected and uncorrected errors, pending, failed
       pages I PENDING         retired pages pending
       pcie I GENERATION WIDTH
       process I PID MIB       any number of them, which compute
       graphics I PID MIB      any number of them, which draw
       mig I INSTANCES
       hang I                  the temperature of this GPU is never answered

   Built with -DNO_EVENT_REASONS it is a driver before 535, with -DNO_THROTTLE_REASONS one of the
   day when the old name is gone, with -DNO_MEMORY_V2 one before 510. -DSTATE_FILE="…" names the file for who has no such variable. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef STATE_FILE
#define STATE_FILE NULL
#endif

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, LOST = 15, MISMATCH = 18 };
enum { MOST_GPUS = 16, MOST_PROCESSES = 32, MOST_INSTANCES = 7 };
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory;
typedef struct { unsigned int version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct {
    unsigned int pid;
    u64 used;
    unsigned int gpu_instance, compute_instance;
} process;
typedef struct { int gpu, instance; } *device; /* instance is -1 for the GPU itself */

typedef struct {
    int lost, hang, instances;
    unsigned int temperature, use, generation, width, pages_pending, remap[4];
    u64 used, reasons, ecc[4];
    int mode, is_told;
    unsigned int owners, drawing;
    process processes[MOST_PROCESSES], screens[MOST_PROCESSES];
} state;

static const u64 MIB = 1024ull * 1024;
static struct { int gpu, instance; } devices[MOST_GPUS][MOST_INSTANCES + 1];
static state gpus[MOST_GPUS];
static int count = 2, error;
static struct stat seen;

#define IS_H100(d) ((d)->gpu % 2)
#define GPU(d) (gpus[(d)->gpu])
#define LIVING(d) do { if (GPU(d).lost) return LOST; } while (0)

static void defaults(void) {
    count = 2;
    error = OK;
    memset(gpus, 0, sizeof gpus);
    for (int i = 0; i < MOST_GPUS; i++) {
        state *gpu = &gpus[i];
        gpu->temperature = i % 2 ? 91 : 64;
        gpu->use = i % 2 ? 7 : 93;
        gpu->used = 300 * MIB;
        gpu->reasons = i % 2 ? 0x08 | 0x40 : 0;
        gpu->generation = i % 2 ? 5 : 4;
        gpu->width = 16;
        memcpy(gpu->ecc, (u64[]){12, 1, 999, 7}, sizeof gpu->ecc);
        for (int n = 0; n <= MOST_INSTANCES; n++) {
            devices[i][n].gpu = i;
            devices[i][n].instance = n - 1;
        }
    }
}

static void take(const char *word, u64 *n) {
    state *gpu = &gpus[n[0] % MOST_GPUS];
    if (!strcmp(word, "gpus")) count = (int)n[0];
    else if (!strcmp(word, "error")) error = (int)n[0];
    else if (!strcmp(word, "lost")) gpu->lost = 1;
    else if (!strcmp(word, "hang")) gpu->hang = 1;
    else if (!strcmp(word, "temperature")) gpu->temperature = (unsigned int)n[1];
    else if (!strcmp(word, "use")) gpu->use = (unsigned int)n[1];
    else if (!strcmp(word, "memory")) gpu->used = n[1] * MIB, gpu->is_told = 1;
    else if (!strcmp(word, "mode")) gpu->mode = (int)n[1];
    else if (!strcmp(word, "reasons")) gpu->reasons = n[1];
    else if (!strcmp(word, "ecc")) memcpy(gpu->ecc, n + 1, sizeof gpu->ecc);
    else if (!strcmp(word, "remap"))
        for (int i = 0; i < 4; i++) gpu->remap[i] = (unsigned int)n[i + 1];
    else if (!strcmp(word, "pages")) gpu->pages_pending = (unsigned int)n[1];
    else if (!strcmp(word, "pcie")) {
        gpu->generation = (unsigned int)n[1];
        gpu->width = (unsigned int)n[2];
    } else if (!strcmp(word, "process")) {
        gpu->processes[gpu->owners++ % MOST_PROCESSES] =
            (process){.pid = (unsigned int)n[1], .used = n[2] * MIB};
        if (!gpu->is_told) gpu->used += n[2] * MIB;
    } else if (!strcmp(word, "graphics")) {
        gpu->screens[gpu->drawing++ % MOST_PROCESSES] =
            (process){.pid = (unsigned int)n[1], .used = n[2] * MIB};
        if (!gpu->is_told) gpu->used += n[2] * MIB;
    } else if (!strcmp(word, "mig")) gpu->instances = (int)n[1];
    else abort();
}

static void look(void) {
    const char *given = getenv("FAKE_NVML_STATE"), *path = given ? given : STATE_FILE;
    struct stat now;
    char line[200], word[40];
    if (!path || stat(path, &now)) {
        if (!seen.st_ino && !devices[1][0].gpu) defaults();
        return;
    }
    if (now.st_ino == seen.st_ino && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    seen = now;
    defaults();
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        u64 n[5] = {0};
        if (sscanf(line, "%39s %llu %llu %llu %llu %llu", word, n, n + 1, n + 2, n + 3, n + 4) > 0)
            take(word, n);
    }
    if (file) fclose(file);
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    look();
    return error;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    return code == MISMATCH ? "Driver/library version mismatch" : "?";
}
int nvmlSystemGetDriverVersion(char *text, unsigned int size) {
    snprintf(text, size, "550.54.15");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned int *found) {
    look();
    *found = (unsigned int)count;
    return error;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device *found) {
    if (index >= (unsigned int)count) return INVALID;
    *found = (device)&devices[index][0];
    LIVING(*found);
    return OK;
}
int nvmlDeviceGetUUID(device d, char *text, unsigned int size) {
    LIVING(d);
    if (d->instance < 0) snprintf(text, size, "GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd", d->gpu);
    else snprintf(text, size, "MIG-0000000%d-aaaa-bbbb-cccc-00000000000%d", d->gpu, d->instance);
    return OK;
}
int nvmlDeviceGetName(device d, char *text, unsigned int size) {
    LIVING(d);
    snprintf(text, size, "%s%s", IS_H100(d) ? "NVIDIA H100 80GB HBM3" : "NVIDIA GeForce RTX 4090",
             d->instance < 0 ? "" : " MIG 1g.10gb");
    return OK;
}
static const u64 RESERVED = 500ull * 1024 * 1024;
int nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *found) {
    LIVING(d);
#ifdef NO_MEMORY_V2
    return NOT_SUPPORTED;
#endif
    if (found->version != (sizeof *found | 2 << 24)) return MISMATCH;
    found->total = (d->instance >= 0 ? 10 : IS_H100(d) ? 80 : 24) * 1024 * MIB;
    found->used = d->instance >= 0 ? 2 * 1024 * MIB : GPU(d).used;
    found->reserved = RESERVED;
    found->free = found->total - found->used - RESERVED;
    return OK;
}
int nvmlDeviceGetMemoryInfo(device d, memory *found) {
    LIVING(d);
    found->total = (d->instance >= 0 ? 10 : IS_H100(d) ? 80 : 24) * 1024 * MIB;
    found->used = RESERVED + (d->instance >= 0 ? 2 * 1024 * MIB : GPU(d).used);
    found->free = found->total - found->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(device d, utilization *found) {
    LIVING(d);
    if (GPU(d).instances) return NOT_SUPPORTED;
    found->gpu = GPU(d).use;
    found->memory = 40;
    return OK;
}
int nvmlDeviceGetTemperature(device d, int sensor, unsigned int *celsius) {
    (void)sensor;
    LIVING(d);
    while (GPU(d).hang) pause();
    *celsius = GPU(d).temperature;
    return OK;
}
int nvmlDeviceGetPowerUsage(device d, unsigned int *mw) {
    LIVING(d);
    if (!IS_H100(d)) return NOT_SUPPORTED;
    *mw = 312500;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(device d, unsigned int *mw) {
    LIVING(d);
    *mw = IS_H100(d) ? 700000 : 450000;
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(device d, u64 *mj) {
    LIVING(d);
    *mj = IS_H100(d) ? 5000000500ull : 1250000ull;
    return OK;
}
int nvmlDeviceGetPerformanceState(device d, unsigned int *state) {
    LIVING(d);
    *state = IS_H100(d) ? 0 : 32; /* unknown */
    return OK;
}
int nvmlDeviceGetClockInfo(device d, int kind, unsigned int *mhz) {
    LIVING(d);
    *mhz = kind == 1 ? (IS_H100(d) ? 345 : 2520) : (IS_H100(d) ? 2619 : 10501);
    return OK;
}
int nvmlDeviceGetMaxClockInfo(device d, int kind, unsigned int *mhz) {
    LIVING(d);
    *mhz = kind == 1 ? (IS_H100(d) ? 1980 : 3105) : (IS_H100(d) ? 2619 : 10501);
    return OK;
}
int nvmlDeviceGetFanSpeed(device d, unsigned int *percent) {
    LIVING(d);
    if (IS_H100(d)) return NOT_SUPPORTED;
    *percent = 55;
    return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(device d, unsigned int *generation) {
    LIVING(d);
    *generation = GPU(d).generation;
    return OK;
}
int nvmlDeviceGetMaxPcieLinkGeneration(device d, unsigned int *generation) {
    LIVING(d);
    *generation = IS_H100(d) ? 5 : 4;
    return OK;
}
int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned int *width) {
    LIVING(d);
    *width = GPU(d).width;
    return OK;
}
int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned int *width) {
    LIVING(d);
    *width = 16;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(device d, int kind, int counter, u64 *found) {
    LIVING(d);
    if (!IS_H100(d)) return NOT_SUPPORTED;
    *found = GPU(d).ecc[2 * counter + kind];
    return OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device d, unsigned int *pending) {
    LIVING(d);
    if (IS_H100(d)) return NOT_SUPPORTED;
    *pending = GPU(d).pages_pending;
    return OK;
}
int nvmlDeviceGetRemappedRows(device d, unsigned int *corrected, unsigned int *uncorrected,
                              unsigned int *pending, unsigned int *failed) {
    LIVING(d);
    if (!IS_H100(d)) return NOT_SUPPORTED;
    *corrected = GPU(d).remap[0];
    *uncorrected = GPU(d).remap[1];
    *pending = GPU(d).remap[2];
    *failed = GPU(d).remap[3];
    return OK;
}
int nvmlDeviceGetMigMode(device d, unsigned int *current, unsigned int *pending) {
    LIVING(d);
    if (!IS_H100(d)) return NOT_SUPPORTED;
    *current = *pending = GPU(d).instances > 0;
    return OK;
}
int nvmlDeviceGetComputeMode(device d, int *mode) {
    LIVING(d);
    *mode = GPU(d).mode;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned int *most) {
    LIVING(d);
    *most = MOST_INSTANCES;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned int index, device *found) {
    LIVING(d);
    if (index >= (unsigned int)GPU(d).instances) return 6; /* not found */
    *found = (device)&devices[d->gpu][index + 1];
    return OK;
}
#ifndef NO_EVENT_REASONS
int nvmlDeviceGetCurrentClocksEventReasons(device d, u64 *bits) {
    LIVING(d);
    *bits = GPU(d).reasons;
    return OK;
}
#endif
#ifndef NO_THROTTLE_REASONS
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, u64 *bits) {
    LIVING(d);
    *bits = GPU(d).reasons;
    return OK;
}
#endif
static int tell(const process *all, unsigned int have, unsigned int *room, process *found) {
    if (*room < have) { *room = have; return INSUFFICIENT_SIZE; }
    *room = have;
    if (have) memcpy(found, all, have * sizeof *found);
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned int *room, process *found) {
    LIVING(d);
    return tell(GPU(d).processes, GPU(d).owners, room, found);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned int *room, process *found) {
    LIVING(d);
    return tell(GPU(d).screens, GPU(d).drawing, room, found);
}
