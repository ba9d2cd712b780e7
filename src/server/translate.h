/* translate.h - bodies of other APIs as bodies of /v1/chat/completions, and the pieces for that.
 *
 * A request for an answer to a conversation has one form inside this server, OpenAI's chat: its
 * fields are read in one place (params.h), whatever API they came through.  Fields of the other API
 * are translated or refused; all others, samplers among them, pass as they are. */
#pragma once
#include "base/json.h"
#include "server/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole translation, appended to out; false: e says why. */
typedef bool (*rf_translate_fn)(const rf_json *body, rf_buf *out, rf_api_error *e);
bool rf_messages_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e);  /* /v1/messages */
bool rf_count_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e);     /* .../count_tokens */
bool rf_responses_to_chat(const rf_json *body, rf_buf *out, rf_api_error *e); /* /v1/responses */

/* A turn of the assistant in pieces.  Start from {0}; free with rf_turn_free. */
typedef struct rf_turn {
    rf_buf text, reasoning, calls;
} rf_turn;
/* arguments: an object, or its text. */
void rf_turn_add_call(rf_turn *t, rf_str id, rf_str name, const rf_json *arguments);
bool rf_turn_is_empty(const rf_turn *t);
void rf_turn_put(const rf_turn *t, rf_buf *out); /* as one message; marks out when memory ran out */
void rf_turn_free(rf_turn *t);

/* Messages go behind one another: the comma between them is put here. */
void rf_put_message(rf_buf *out, const char *role, rf_str text);
void rf_put_tool_message(rf_buf *out, rf_str call_id, rf_str text);
/* Text behind text, on a line of its own. */
void rf_add_line(rf_buf *text, rf_str more);
/* A tool of chat from the parts of another API's. */
void rf_put_tool(rf_buf *out, const rf_json *tool, const char *parameters);
/* ,"key":value for every member of the object that is not among the names; [..., NULL]. */
void rf_put_others(rf_buf *out, const rf_json *object, const char *const *names);
/* The same for the members that mean in chat what they mean here, if anything; translated: those that
 * the translation has put in other words. */
void rf_put_passing(rf_buf *out, const rf_json *body, const char *const *translated);
/* ,"chat_template_kwargs":{...}: the body's own, if any, and enable_thinking unless NULL. */
void rf_put_template_vars(rf_buf *out, const rf_json *body, const bool *thinking);

#ifdef __cplusplus
}
#endif
