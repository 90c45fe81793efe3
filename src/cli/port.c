/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the kernel's tables of UDP and Unix sockets. A line of the former is
 *   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid ...
 *   12: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000 ...
 */
#include "cli/port.h"

#include <string.h>

#define TABLE_LINE_MAX 512

bool port_table_other_holder(FILE *table, uint16_t port, uid_t self, uid_t *holder)
{
    char line[TABLE_LINE_MAX];

    while (fgets(line, sizeof(line), table)) {
        unsigned local_port;
        unsigned uid;

        if (sscanf(line, " %*u: %*[0-9A-F]:%4x %*s %*s %*s %*s %*s %u", &local_port, &uid) == 2 &&
            local_port == port && uid != self) {
            *holder = uid;
            return true;
        }
    }
    return false;
}

bool port_table_shares(FILE *table, uid_t holder)
{
    char line[TABLE_LINE_MAX];
    char name[TABLE_LINE_MAX];

    snprintf(name, sizeof(name), " @uroce/%u/", holder);
    while (fgets(line, sizeof(line), table)) {
        if (strstr(line, name))
            return true;
    }
    return false;
}

bool port_shares(uid_t holder)
{
    FILE *table = fopen("/proc/net/unix", "re");
    bool shares;

    if (!table)
        return false;
    shares = port_table_shares(table, holder);
    fclose(table);
    return shares;
}

bool port_other_holder(uint16_t port, uid_t self, uid_t *holder)
{
    static const char *const tables[] = {"/proc/net/udp", "/proc/net/udp6"};
    bool found = false;

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && !found; i++) {
        FILE *table = fopen(tables[i], "re");

        if (!table)
            continue;
        found = port_table_other_holder(table, port, self, holder);
        fclose(table);
    }
    return found;
}
