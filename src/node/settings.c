/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of settings, and the one parser that reads each kind from a string. */
#include "node/settings.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/limits.h"

#define PREFIX "UROCE_"
#define PATH_SIZE 4096

enum kind {
    KIND_SWITCH, /* bool */
    KIND_LEVEL,  /* uint32_t, enum log_level */
    KIND_TEXT,   /* char[max + 1] */
    KIND_NUMBER, /* uint64_t, decimal or 0x */
    KIND_BYTES,  /* uint64_t, with K, M, G of 1024 */
    KIND_RATE,   /* uint64_t, with K, M, G of 1000 */
};

struct setting {
    const char *name;
    size_t offset; /* in struct settings */
    enum kind kind;
    uint64_t min;
    uint64_t max;
    const char *fallback;
    const char *values;
    const char *meaning;
};

#define AT(field) offsetof(struct settings, field)

/* clang-format off */
static const struct setting table[] = {
    {"UROCE_DEVICES", AT(devices), KIND_TEXT, 0, SETTING_TEXT_SIZE - 1, "",
     "names of interfaces with commas between them, such as eth0,lo",
     "which interfaces become devices, in this order; without it all that are up and have an address"},
    {"UROCE_LOG", AT(log_level), KIND_LEVEL, 0, 0, "silent",
     "silent, error, warn, info or debug",
     "how much is told on standard error"},
    {"UROCE_GSO", AT(gso), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "let the kernel cut one large send into packets (UDP_SEGMENT)"},
    {"UROCE_GRO", AT(gro), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "let the kernel hand over several packets at once (UDP_GRO)"},
    {"UROCE_BPF", AT(bpf), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "let a filter in the kernel choose the process that a packet is for"},
    {"UROCE_GUESTS", AT(guests), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "share UDP port 4791 with other users: who holds it sees what the others receive"},
    {"UROCE_RAW", AT(raw), KIND_SWITCH, 0, 0, "off",
     "on or off",
     "exchange whole packets with other hosts, which needs CAP_NET_RAW, not UDP payloads"},
    {"UROCE_STAT", AT(stat), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "show devices, queue pairs and counters to uroce stat"},
    {"UROCE_SYSFS", AT(sysfs), KIND_SWITCH, 0, 0, "on",
     "on or off",
     "under uroce run: show devices in /sys/class/infiniband and /dev/infiniband"},
    {"UROCE_SEND_SOCKETS", AT(send_sockets), KIND_NUMBER, 1, 64, "16",
     "a number from 1 to 64",
     "sockets to send from, so UDP source ports, of a process and address family"},
    {"UROCE_RCVBUF", AT(receive_buffer), KIND_BYTES, 16384, 1u << 30, "auto",
     "a number of bytes from 16K to 1G, or auto",
     "receive buffer to ask the kernel for; auto: as much as it allows"},
    {"UROCE_WINDOW", AT(window), KIND_BYTES, 4096, 64u << 20, "auto",
     "a number of bytes from 4K to 64M, or auto",
     "most that may be on its way to one process without an acknowledgement"},
    {"UROCE_TIMEOUT_FLOOR_MS", AT(timeout_floor_ms), KIND_NUMBER, 0, 60000, "20",
     "a number of milliseconds from 0 to 60000",
     "shortest retransmission time-out that is honoured, whatever a program asks for"},
    {"UROCE_DATAGRAM_RATE", AT(datagram_rate_bps), KIND_RATE, 0, 1000000000000u, "auto",
     "a number of bits per second up to 1000G, 0 for no limit, or auto",
     "how fast UC and UD packets may leave to one process on another host"},
    {"UROCE_RD_ATOMIC", AT(rd_atomic), KIND_NUMBER, 1, QP_RD_ATOMIC_MAX, "16",
     "a number from 1 to 128",
     "most outstanding READs and atomics that a queue pair may ask for"},
    {"UROCE_SPIN", AT(spin), KIND_NUMBER, 0, 1000000000, "1000",
     "a number of polls, 0 for never",
     "empty polls in a row after which a polling thread offers its core to others"},
    {"UROCE_VENDOR_PART_ID", AT(vendor_part_id), KIND_NUMBER, 0, UINT32_MAX, "0",
     "a number from 0 to 4294967295",
     "part number that devices report; some programs choose their ways by it"},
    {"UROCE_FAULT", AT(fault), KIND_TEXT, 0, SETTING_RULES_SIZE - 1, "",
     "rules of at most 1023 characters, such as drop=1%,delay=100us,seed=7",
     "what shall go wrong with packets; see uroce-run(1)"},
    {"UROCE_RECORD", AT(record), KIND_TEXT, 0, SETTING_PATH_SIZE - 1, "",
     "a path of at most 4095 characters, in which %p becomes the process number",
     "file to record packets in, as pcapng"},
    {"UROCE_RECORD_LIMIT", AT(record_limit), KIND_BYTES, 65536, UINT64_C(1) << 40, "1G",
     "a number of bytes from 64K to 1024G",
     "most that a process records, in all its files"},
    {"UROCE_RECORD_FILES", AT(record_files), KIND_NUMBER, 1, 1000, "1",
     "a number from 1 to 1000",
     "files to spread it over: with more than one the oldest makes room, with one recording ends"},
};
/* clang-format on */

#define TABLE_COUNT (sizeof(table) / sizeof(table[0]))

static_assert(QP_RD_ATOMIC_MAX == 128 && QP_RD_ATOMIC_DEFAULT == 16,
              "the texts of UROCE_RD_ATOMIC name these");

static const char *const level_names[] = {
    [LOG_LEVEL_SILENT] = "silent", [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",     [LOG_LEVEL_DEBUG] = "debug",
};

static bool parse_switch(const char *text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"on", true},   {"off", false},   {"yes", true}, {"no", false},
                 {"true", true}, {"false", false}, {"1", true},   {"0", false}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

static bool parse_level(const char *text, uint32_t *out)
{
    for (uint32_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcasecmp(text, level_names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* K, M or G at the end of a number, in units of base; 0 for anything else. */
static uint64_t suffix_factor(const char *suffix, uint64_t base)
{
    static const char letters[] = "KMG";
    uint64_t factor = 1;

    if (suffix[0] == '\0')
        return 1;
    for (size_t i = 0; letters[i] != '\0'; i++) {
        factor *= base;
        if (strncasecmp(suffix, &letters[i], 1) == 0 && suffix[1] == '\0')
            return factor;
    }
    return 0;
}

static bool parse_number(const struct setting *s, const char *text, uint64_t *out)
{
    const uint64_t base = s->kind == KIND_BYTES ? 1024 : s->kind == KIND_RATE ? 1000 : 1;
    uint64_t value, factor;
    char *end;

    if (strcmp(s->fallback, "auto") == 0 && strcasecmp(text, "auto") == 0) {
        *out = SETTING_AUTO;
        return true;
    }
    /* strtoull would take a sign and blanks. */
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10);
    if (errno != 0 || end == text)
        return false;
    factor = base == 1 && *end != '\0' ? 0 : suffix_factor(end, base);
    if (factor == 0 || value > UINT64_MAX / factor)
        return false;
    value *= factor;
    if (value < s->min || value > s->max)
        return false;
    *out = value;
    return true;
}

static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

static bool has_control(const char *text)
{
    while (*text != '\0' && !is_control(*text))
        text++;
    return *text != '\0';
}

/* Writes the value that text means into out, or changes nothing and returns false. */
static bool setting_parse(const struct setting *s, const char *text, struct settings *out)
{
    void *field = (char *)out + s->offset;

    switch (s->kind) {
    case KIND_SWITCH:
        return parse_switch(text, field);
    case KIND_LEVEL:
        return parse_level(text, field);
    case KIND_TEXT:
        if (strlen(text) > s->max || has_control(text))
            return false;
        strcpy(field, text);
        return true;
    case KIND_NUMBER:
    case KIND_BYTES:
    case KIND_RATE:
        return parse_number(s, text, field);
    }
    return false;
}

static const struct setting *setting_find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcasecmp(name, table[i].name) == 0 ||
            strcasecmp(name, table[i].name + strlen(PREFIX)) == 0)
            return &table[i];
    return NULL;
}

/* A file that is longer, or has more mistakes, is not a configuration file. */
#define FILE_LEN_MAX (1 << 20)
#define MISTAKES_MAX 10u

struct reading {
    const struct settings_source *source;
    struct settings *out;
    uint32_t mistakes; /* in the file */
};

/* What is quoted came from outside and may be anything; a sentence is one line. */
static void make_one_line(char *sentence)
{
    for (char *c = sentence; *c != '\0'; c++) {
        if (is_control(*c))
            *c = '?';
    }
}

__attribute__((format(printf, 2, 3))) static void complain(const struct settings_source *source,
                                                           const char *format, ...)
{
    char sentence[SETTING_SENTENCE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    make_one_line(sentence);
    source->complain(sentence);
}

static void say_what_is_meant(const struct setting *s, const char *called, const char *text,
                              char sentence[SETTING_SENTENCE_SIZE])
{
    snprintf(sentence, SETTING_SENTENCE_SIZE, "%s is '%.64s' and should be %s", called, text,
             s->values);
    make_one_line(sentence);
}

int setting_check(const char *name, const char *text, const char *called,
                  char sentence[SETTING_SENTENCE_SIZE])
{
    const struct setting *s = setting_find(name);
    struct settings unused;

    if (s == NULL)
        return -ENOENT;
    if (text[0] != '\0' && setting_parse(s, text, &unused))
        return 0;
    say_what_is_meant(s, called, text, sentence);
    return -EINVAL;
}

/* where is empty, or the file with ": ". Returns false for a mistake. */
static bool take(const struct reading *r, const struct setting *s, const char *where,
                 const char *text)
{
    char sentence[SETTING_SENTENCE_SIZE];

    if (setting_parse(s, text, r->out))
        return true;
    say_what_is_meant(s, s->name, text, sentence);
    complain(r->source, "%s%s; it is ignored", where, sentence);
    return false;
}

static int take_line(void *context, const char *section, const char *name, const char *value)
{
    struct reading *r = context;
    const struct setting *s = setting_find(name);
    char where[PATH_SIZE + 2];

    (void)section;
    if (r->mistakes == MISTAKES_MAX)
        return 1;
    snprintf(where, sizeof(where), "%s: ", r->source->file);
    if (s == NULL)
        complain(r->source,
                 "%s'%.64s' is not a setting; they are described in "
                 "uroce-environment(7)",
                 where, name);
    else if (take(r, s, where, value))
        return 1;
    if (++r->mistakes == MISTAKES_MAX)
        complain(r->source, "%sso many mistakes; the rest is not read", where);
    return 1;
}

/* Opens a file of a size that a configuration file may have; NULL with errno set. */
static FILE *open_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st = {0};
    FILE *file;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_LEN_MAX) {
        close(fd);
        errno = st.st_size > FILE_LEN_MAX ? EFBIG : S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return NULL;
    }
    file = fdopen(fd, "r");
    if (file == NULL)
        close(fd);
    return file;
}

static void read_file(struct reading *r)
{
    const struct settings_source *source = r->source;
    FILE *file = open_file(source->file);
    int line;

    if (file == NULL) {
        if (source->file_wanted)
            complain(source, "%s: cannot be read (UROCE_CONFIG): %s", source->file,
                     strerror(errno));
        return;
    }
    line = ini_parse_file(file, take_line, r);
    fclose(file);
    if (line > 0 && r->mistakes < MISTAKES_MAX)
        complain(source, "%s: line %d is not of the form name = value", source->file, line);
}

void settings_read(const struct settings_source *source, struct settings *out)
{
    struct reading r = {.source = source, .out = out};

    memset(out, 0, sizeof(*out));
    for (size_t i = 0; i < TABLE_COUNT; i++)
        setting_parse(&table[i], table[i].fallback, out);
    if (source->file != NULL)
        read_file(&r);
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        const char *text = source->environment(table[i].name);

        if (text != NULL && text[0] != '\0')
            take(&r, &table[i], "", text);
    }
}

bool settings_describe(uint32_t index, struct setting_description *out)
{
    if (index >= TABLE_COUNT)
        return false;
    *out = (struct setting_description){
        .name = table[index].name,
        .values = table[index].values,
        .fallback = table[index].fallback,
        .meaning = table[index].meaning,
    };
    return true;
}

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

/* Always said: a value that is silently not honoured costs an afternoon. */
static void say(const char *sentence)
{
    fprintf(stderr, "uroce: %s\n", sentence);
}

/* Writes the first configuration file that exists; returns false when there is none. */
static bool find_file(char path[PATH_SIZE], bool *wanted)
{
    const char *named = environment("UROCE_CONFIG");
    const char *home = environment("HOME");

    *wanted = named != NULL && named[0] != '\0';
    if (*wanted) {
        snprintf(path, PATH_SIZE, "%s", named);
        return true;
    }
    if (home != NULL) {
        snprintf(path, PATH_SIZE, "%s/.config/uroce/uroce.conf", home);
        if (access(path, R_OK) == 0)
            return true;
    }
    snprintf(path, PATH_SIZE, "/etc/uroce.conf");
    return access(path, R_OK) == 0;
}

static struct settings current;

static void read_current(void)
{
    struct settings_source source = {.environment = environment, .complain = say};
    char path[PATH_SIZE];

    if (find_file(path, &source.file_wanted))
        source.file = path;
    settings_read(&source, &current);
    log_level_set(current.log_level);
}

const struct settings *settings_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_current);
    return &current;
}
