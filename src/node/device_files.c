/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel would show of a device in /sys/class/infiniband. A table says what there is. */
#include "node/device_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes the file's text into value (DEVICE_FILE_SIZE). index: of a GID, in the files that have one
 * each.
 */
typedef void (*file_fn)(const struct device *d, uint32_t index, char *value);

static void write_guid(const struct device *d, uint32_t index, char *value)
{
    const uint8_t *g = d->guid;

    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3],
             g[4], g[5], g[6], g[7]);
}

static void write_version(const struct device *d, uint32_t index, char *value)
{
    (void)d;
    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "%s", UROCE_VERSION);
}

static void write_description(const struct device *d, uint32_t index, char *value)
{
    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "uroce on %s", d->netdev);
}

static void write_name(const struct device *d, uint32_t index, char *value)
{
    (void)d;
    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "%s", d->name);
}

static void write_state(const struct device *d, uint32_t index, char *value)
{
    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "%s", d->up ? "4: ACTIVE" : "1: DOWN");
}

static void write_phys_state(const struct device *d, uint32_t index, char *value)
{
    (void)index;
    snprintf(value, DEVICE_FILE_SIZE, "%s", d->up ? "5: LinkUp" : "3: Disabled");
}

static void write_gid(const struct device *d, uint32_t index, char *value)
{
    static const struct gid none;
    const uint8_t *g = index < d->gid_count ? d->gids[index].gid.bytes : none.bytes;
    char *to = value;

    for (int i = 0; i < 16; i += 2)
        to += snprintf(to, 6, "%s%02x%02x", i == 0 ? "" : ":", g[i], g[i + 1]);
}

static void write_gid_type(const struct device *d, uint32_t index, char *value)
{
    snprintf(value, DEVICE_FILE_SIZE, "%s", device_has_gid(d, index) ? "RoCE v2" : "");
}

static void write_netdev(const struct device *d, uint32_t index, char *value)
{
    snprintf(value, DEVICE_FILE_SIZE, "%s", device_has_gid(d, index) ? d->netdev : "");
}

/* A name ends in '/' when a GID's index follows. Either text or write. */
static const struct {
    const char *name;
    const char *text;
    file_fn write;
} files[] = {
    /* clang-format off */
    /* name                          text                    write             */
    {"abi_version",                  "1",                    NULL},
    {"board_id",                     "uroce",                NULL},
    {"fw_ver",                       NULL,                   write_version},
    {"hca_type",                     "uroce",                NULL},
    {"hw_rev",                       "0",                    NULL},
    {"ibdev",                        NULL,                   write_name},
    {"node_desc",                    NULL,                   write_description},
    {"node_guid",                    NULL,                   write_guid},
    {"node_type",                    "1: CA",                NULL},
    {"sys_image_guid",               NULL,                   write_guid},
    {"ports/1/cap_mask",             "0x04010000",           NULL},
    {"ports/1/gid_attrs/ndevs/",     NULL,                   write_netdev},
    {"ports/1/gid_attrs/types/",     NULL,                   write_gid_type},
    {"ports/1/gids/",                NULL,                   write_gid},
    {"ports/1/lid",                  "0x0",                  NULL},
    {"ports/1/lid_mask_count",       "0",                    NULL},
    {"ports/1/link_layer",           "Ethernet",             NULL},
    {"ports/1/phys_state",           NULL,                   write_phys_state},
    {"ports/1/pkeys/0",              "0xffff",               NULL},
    {"ports/1/rate",                 "10 Gb/sec (1X QDR)",   NULL},
    {"ports/1/sm_lid",               "0x0",                  NULL},
    {"ports/1/sm_sl",                "0",                    NULL},
    {"ports/1/state",                NULL,                   write_state},
    /* clang-format on */
};

/* Whether a file's path is of that row; *index is the GID's, or 0. */
static bool file_matches(const char *name, const char *path, uint32_t *index)
{
    size_t len = strlen(name);
    char *end;

    *index = 0;
    if (name[len - 1] != '/')
        return strcmp(name, path) == 0;
    if (strncmp(name, path, len) != 0 || path[len] < '0' || path[len] > '9')
        return false;
    *index = (uint32_t)strtoul(path + len, &end, 10);
    return *end == '\0' && *index < DEVICE_GIDS_MAX;
}

static void read_row(const struct device *d, size_t row, uint32_t index, char *value)
{
    if (files[row].text != NULL)
        snprintf(value, DEVICE_FILE_SIZE, "%s", files[row].text);
    else
        files[row].write(d, index, value);
}

bool device_file_read(const struct device *d, const char *path, char value[DEVICE_FILE_SIZE])
{
    uint32_t index;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (!file_matches(files[i].name, path, &index))
            continue;
        read_row(d, i, index, value);
        return true;
    }
    return false;
}

int device_files_each(const struct device *d, device_file_fn fn, void *context)
{
    char path[64], value[DEVICE_FILE_SIZE];
    int result = 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && result == 0; i++) {
        const char *name = files[i].name;
        bool of_gids = name[strlen(name) - 1] == '/';
        uint32_t count = of_gids ? d->gid_count : 1;

        for (uint32_t index = 0; index < count && result == 0; index++) {
            if (of_gids)
                snprintf(path, sizeof(path), "%s%u", name, index);
            else
                snprintf(path, sizeof(path), "%s", name);
            read_row(d, i, index, value);
            result = fn(context, path, value);
        }
    }
    return result;
}
