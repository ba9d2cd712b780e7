/* blocks.c - the parser's events: one of another kind closes a block and opens the next one. */
#include "server/blocks.h"

#include "base/log.h"
#include "base/os.h"

struct rf_blocks {
    rf_tool_parser *parser;
    rf_block *p; /* [len] */
    size_t len, cap;
    uint32_t n_reasoning;
    bool is_open; /* the last one still grows */
    bool failed;  /* memory ran out: what is here is not the whole answer */
    const char *id;
    bool single_call;
    const rf_block_sink *sink;
};

static rf_block *last_of(rf_blocks *b) { return &b->p[b->len - 1]; }

static void close_last(rf_blocks *b) {
    if (!b->is_open) return;
    b->is_open = false;
    if (b->sink) b->sink->close(b->sink->user, b->len - 1, last_of(b));
}

static bool has_room(rf_blocks *b) {
    if (b->len < b->cap) return true;
    size_t cap = b->cap ? b->cap * 2 : 4;
    rf_block *p = rf_realloc(b->p, b->cap, cap, sizeof *p);
    if (!p) return false;
    b->p = p;
    b->cap = cap;
    return true;
}

static void open_next(rf_blocks *b, rf_block_kind kind, rf_str name, rf_str call_id) {
    close_last(b);
    if (!has_room(b)) {
        b->failed = true;
        return;
    }
    rf_block *block = &b->p[b->len++];
    *block = (rf_block){.kind = kind, .id = rf_random_u64()};
    rf_buf_put(&block->name, name.p, name.len);
    rf_buf_put(&block->call_id, call_id.p, call_id.len);
    b->failed = block->name.failed || block->call_id.failed;
    b->is_open = true;
    if (b->sink && !b->failed) b->sink->open(b->sink->user, b->len - 1, block);
}

static void grow(rf_blocks *b, rf_str more) {
    if (more.len == 0 || b->failed) return;
    rf_buf_put(&last_of(b)->text, more.p, more.len);
    b->failed = last_of(b)->text.failed;
    if (b->sink && !b->failed) b->sink->grow(b->sink->user, b->len - 1, last_of(b), more);
}

static void add_words(rf_blocks *b, rf_block_kind kind, rf_str more) {
    if (more.len && (!b->is_open || last_of(b)->kind != kind))
        open_next(b, kind, RF_STR(""), RF_STR(""));
    grow(b, more);
}

static void on_event(void *user, const rf_tool_event *ev) {
    rf_blocks *b = user;
    bool of_call = ev->kind == RF_TOOL_BEGIN || ev->kind == RF_TOOL_ARGUMENTS;
    if (b->failed || (of_call && b->single_call && ev->index > 0)) return;
    switch (ev->kind) {
    case RF_TOOL_CONTENT:
        add_words(b, RF_BLOCK_TEXT, ev->text);
        break;
    case RF_TOOL_REASONING:
        add_words(b, RF_BLOCK_REASONING, ev->text);
        break;
    case RF_TOOL_BEGIN:
        open_next(b, RF_BLOCK_CALL, ev->text, ev->id);
        break;
    case RF_TOOL_ARGUMENTS:
        grow(b, ev->text);
        break;
    case RF_TOOL_END:
        close_last(b);
        break;
    case RF_TOOL_WARNING:
        rf_log_write(RF_LOG_WARN, "job=%s %.*s", b->id, RF_STR_ARG(ev->text));
        break;
    }
}

rf_status rf_blocks_create(rf_blocks **out, const rf_reply_format *f, const rf_reply_opts *o) {
    rf_blocks *b = *out = rf_alloc(1, sizeof *b);
    if (!b) return RF_ENOMEM;
    const rf_tool_parser_opts po = rf_reply_parser_opts(f, o, on_event, b);
    b->id = o->id;
    b->single_call = o->single_call;
    rf_status s = rf_tool_parser_create(&b->parser, &po, NULL);
    if (s == RF_OK) return s;
    rf_free(b);
    *out = NULL;
    return s;
}

rf_status rf_blocks_feed(rf_blocks *b, rf_str text, bool is_last, const rf_block_sink *sink) {
    b->sink = sink;
    RF_TRY(rf_tool_parser_feed(b->parser, text));
    if (!is_last && b->is_open && last_of(b)->kind == RF_BLOCK_REASONING) b->n_reasoning++;
    if (is_last) RF_TRY(rf_tool_parser_finish(b->parser));
    if (is_last && b->is_open) {
        last_of(b)->is_cut = true;
        close_last(b);
    }
    return b->failed ? RF_ENOMEM : RF_OK;
}

size_t rf_blocks_count(const rf_blocks *b) { return b ? b->len : 0; }

const rf_block *rf_blocks_at(const rf_blocks *b, size_t i) { return &b->p[i]; }

bool rf_blocks_have_call(const rf_blocks *b) { return b && rf_tool_parser_n_calls(b->parser) > 0; }

uint32_t rf_blocks_n_reasoning(const rf_blocks *b) { return b ? b->n_reasoning : 0; }

void rf_blocks_free(rf_blocks *b) {
    if (!b) return;
    for (size_t i = 0; i < b->len; i++) {
        rf_buf_free(&b->p[i].text);
        rf_buf_free(&b->p[i].call_id);
        rf_buf_free(&b->p[i].name);
    }
    rf_tool_parser_free(b->parser);
    rf_free(b->p);
    rf_free(b);
}
