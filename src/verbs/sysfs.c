/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that programs would read in /sys for a device, answered from memory;
 * for all other paths the real file is read. A table says what there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/device.h"
#include "verbs/export.h"

#define SYSFS_ROOT "/sys"
#define VALUE_SIZE 128

/* Writes the file's text into value (VALUE_SIZE). index: of a GID, in the files that have one each.
 */
typedef void (*file_fn)(const struct device_handle *h, const struct device *d, uint32_t index,
                        char *value);

static void write_guid(const struct device_handle *h, const struct device *d, uint32_t index,
                       char *value)
{
    const uint8_t *g = d->guid;

    (void)h;
    (void)index;
    snprintf(value, VALUE_SIZE, "%02x%02x:%02x%02x:%02x%02x:%02x%02x", g[0], g[1], g[2], g[3], g[4],
             g[5], g[6], g[7]);
}

static void write_version(const struct device_handle *h, const struct device *d, uint32_t index,
                          char *value)
{
    (void)h;
    (void)d;
    (void)index;
    snprintf(value, VALUE_SIZE, "%s", UROCE_VERSION);
}

static void write_description(const struct device_handle *h, const struct device *d, uint32_t index,
                              char *value)
{
    (void)h;
    (void)index;
    snprintf(value, VALUE_SIZE, "uroce on %s", d->netdev);
}

static void write_name(const struct device_handle *h, const struct device *d, uint32_t index,
                       char *value)
{
    (void)d;
    (void)index;
    snprintf(value, VALUE_SIZE, "%s", h->ibv.name);
}

static void write_state(const struct device_handle *h, const struct device *d, uint32_t index,
                        char *value)
{
    (void)h;
    (void)index;
    snprintf(value, VALUE_SIZE, "%s", d->up ? "4: ACTIVE" : "1: DOWN");
}

static void write_phys_state(const struct device_handle *h, const struct device *d, uint32_t index,
                             char *value)
{
    (void)h;
    (void)index;
    snprintf(value, VALUE_SIZE, "%s", d->up ? "5: LinkUp" : "3: Disabled");
}

static void write_gid(const struct device_handle *h, const struct device *d, uint32_t index,
                      char *value)
{
    static const struct gid none;
    const uint8_t *g = index < d->gid_count ? d->gids[index].gid.bytes : none.bytes;
    char *to = value;

    (void)h;
    for (int i = 0; i < 16; i += 2)
        to += snprintf(to, 6, "%s%02x%02x", i == 0 ? "" : ":", g[i], g[i + 1]);
}

static void write_gid_type(const struct device_handle *h, const struct device *d, uint32_t index,
                           char *value)
{
    (void)h;
    snprintf(value, VALUE_SIZE, "%s", device_has_gid(d, index) ? "RoCE v2" : "");
}

static void write_netdev(const struct device_handle *h, const struct device *d, uint32_t index,
                         char *value)
{
    (void)h;
    snprintf(value, VALUE_SIZE, "%s", device_has_gid(d, index) ? d->netdev : "");
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

/* Whether rest of a path is that file; *index is the GID's, or 0. */
static bool file_matches(const char *name, const char *rest, uint32_t *index)
{
    size_t len = strlen(name);
    char *end;

    *index = 0;
    if (name[len - 1] != '/')
        return strcmp(name, rest) == 0;
    if (strncmp(name, rest, len) != 0 || rest[len] < '0' || rest[len] > '9')
        return false;
    *index = (uint32_t)strtoul(rest + len, &end, 10);
    return *end == '\0' && *index < DEVICE_GIDS_MAX;
}

/* The file's text in value; false when the device has no such file. */
static bool device_file(struct device_handle *h, const char *rest, char *value)
{
    struct device state;
    uint32_t index;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        if (!file_matches(files[i].name, rest, &index))
            continue;
        device_snapshot(h, &state);
        if (files[i].text != NULL)
            snprintf(value, VALUE_SIZE, "%s", files[i].text);
        else
            files[i].write(h, &state, index, value);
        return true;
    }
    return false;
}

/* The device that path lies in, and what follows its directory; NULL when it is in none. */
static struct device_handle *split_path(char *path, const char **rest)
{
    /* "/sys/class/infiniband/NAME/rest": the directory is four names long */
    char *cut = path;

    for (int depth = 0; depth < 5 && cut != NULL; depth++)
        cut = depth == 0 ? strchr(path, '/') : strchr(cut + 1, '/');
    if (cut == NULL)
        return NULL;
    *cut = '\0';
    *rest = cut + 1;
    return device_find_path(path);
}

static int answer(const char *value, char *buf, size_t size)
{
    size_t len = strlen(value);

    if (size == 0)
        return 0;
    if (len > size - 1)
        len = size - 1;
    memcpy(buf, value, len);
    buf[len] = '\0';
    return (int)len;
}

/* Reads a file of the system, without the line end. Its length, or -1 with errno. */
static int read_file(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len;

    if (fd < 0)
        return -1;
    len = read(fd, buf, size);
    close(fd);
    if (len <= 0)
        return (int)len;
    if (buf[len - 1] == '\n')
        len--;
    if ((size_t)len < size)
        buf[len] = '\0';
    return (int)len;
}

EXPORT const char *ibv_get_sysfs_path(void);
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

EXPORT const char *ibv_get_sysfs_path(void)
{
    return SYSFS_ROOT;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    struct device_handle *h;
    char value[VALUE_SIZE];
    const char *rest = NULL;
    char path[1024];
    char directory[1024];

    if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(directory, sizeof(directory), "%s", path);
    h = split_path(directory, &rest);
    if (h == NULL)
        return read_file(path, buf, size);
    if (!device_file(h, rest, value)) {
        errno = ENOENT;
        return -1;
    }
    return answer(value, buf, size);
}
