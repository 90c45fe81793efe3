/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of words. */
#include "script/grammar_private.h"

#include "engine/cq.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/qp.h"
#include "wire/aeth.h"

const struct field_info field_infos[FIELD_COUNT] = {
#define FIELD_ROW(row, name_, lines_, value_, bits_, header_, ...)                                 \
    [FIELD_##row] = {name_, lines_, VALUE_##value_, bits_, header_, __VA_ARGS__},
    FIELD_ROWS(FIELD_ROW)
#undef FIELD_ROW
};

const struct word nak_words[] = {
    {"psn", NAK_PSN_SEQUENCE},      {"invalid", NAK_INVALID_REQUEST},
    {"access", NAK_REMOTE_ACCESS},  {"operational", NAK_REMOTE_OPERATIONAL},
    {"rd", NAK_INVALID_RD_REQUEST}, {NULL, 0},
};

const struct word status_words[] = {
    {"success", STATUS_SUCCESS},
    {"loc_len", STATUS_LOC_LEN_ERR},
    {"loc_qp_op", STATUS_LOC_QP_OP_ERR},
    {"loc_prot", STATUS_LOC_PROT_ERR},
    {"flushed", STATUS_WR_FLUSH_ERR},
    {"mw_bind", STATUS_MW_BIND_ERR},
    {"bad_resp", STATUS_BAD_RESP_ERR},
    {"loc_access", STATUS_LOC_ACCESS_ERR},
    {"rem_inv_req", STATUS_REM_INV_REQ_ERR},
    {"rem_access", STATUS_REM_ACCESS_ERR},
    {"rem_op", STATUS_REM_OP_ERR},
    {"retry_exceeded", STATUS_RETRY_EXC_ERR},
    {"rnr_retry_exceeded", STATUS_RNR_RETRY_EXC_ERR},
    {"general", STATUS_GENERAL_ERR},
    {NULL, 0},
};

const struct word completion_words[] = {
    {"send", COMPLETION_SEND},
    {"write", COMPLETION_WRITE},
    {"read", COMPLETION_READ},
    {"cas", COMPLETION_CMP_SWAP},
    {"fadd", COMPLETION_FETCH_ADD},
    {"bind", COMPLETION_BIND_MW},
    {"local_inv", COMPLETION_LOCAL_INV},
    {"flush", COMPLETION_FLUSH},
    {"atomic_write", COMPLETION_ATOMIC_WRITE},
    {"recv", COMPLETION_RECV},
    {"recv_imm", COMPLETION_RECV_WRITE_IMM},
    {NULL, 0},
};

const struct word right_words[] = {
    {"none", 0},
    {"local_write", ACCESS_LOCAL_WRITE},
    {"remote_write", ACCESS_REMOTE_WRITE},
    {"remote_read", ACCESS_REMOTE_READ},
    {"remote_atomic", ACCESS_REMOTE_ATOMIC},
    {"mw_bind", ACCESS_MW_BIND},
    {"flush_global", ACCESS_FLUSH_GLOBAL},
    {NULL, 0},
};

const struct word state_words[] = {
    {"RESET", QP_RESET}, {"INIT", QP_INIT}, {"RTR", QP_RTR}, {"RTS", QP_RTS},
    {"SQD", QP_SQD},     {"SQE", QP_SQE},   {"ERR", QP_ERR}, {NULL, 0},
};

const struct word event_words[] = {
    {"cq_err", ENGINE_EVENT_CQ_ERR},
    {"qp_fatal", ENGINE_EVENT_QP_FATAL},
    {"qp_req_err", ENGINE_EVENT_QP_REQ_ERR},
    {"qp_access_err", ENGINE_EVENT_QP_ACCESS_ERR},
    {"comm_est", ENGINE_EVENT_COMM_EST},
    {"sq_drained", ENGINE_EVENT_SQ_DRAINED},
    {"srq_err", ENGINE_EVENT_SRQ_ERR},
    {"srq_limit", ENGINE_EVENT_SRQ_LIMIT},
    {"last_wqe", ENGINE_EVENT_LAST_WQE},
    {"any", EVENT_ANY},
    {NULL, 0},
};

const struct word work_words[] = {
    {"recv", WORK_RECV},  {"send", WR_SEND},           {"write", WR_WRITE},
    {"read", WR_READ},    {"cas", WR_CMP_SWAP},        {"fadd", WR_FETCH_ADD},
    {"bind", WR_BIND_MW}, {"local_inv", WR_LOCAL_INV}, {NULL, 0},
};

const struct word service_words[] = {
    {"rc", SERVICE_RC},
    {"uc", SERVICE_UC},
    {"ud", SERVICE_UD},
    {NULL, 0},
};

const struct word nothing_words[] = {
    {"completion", NO_COMPLETION},
    {"event", NO_EVENT},
    {NULL, 0},
};

const struct word *value_words(enum value_kind kind)
{
    switch (kind) {
    case VALUE_NAK:
        return nak_words;
    case VALUE_STATUS:
        return status_words;
    case VALUE_OPCODE:
        return completion_words;
    case VALUE_RIGHTS:
        return right_words;
    case VALUE_NUMBER:
    case VALUE_PSN:
    case VALUE_FLAG:
    case VALUE_CODE:
    case VALUE_BYTES:
    case VALUE_BARE:
        break;
    }
    return NULL;
}

const char *word_name(const struct word *list, uint32_t value)
{
    for (; list->name != NULL; list++) {
        if (list->value == value)
            return list->name;
    }
    return "?";
}
