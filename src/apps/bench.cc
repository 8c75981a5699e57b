// SPDX-License-Identifier: Apache-2.0
// ridge bench: times one op, a module, a graph, attention, a whole model, or a server. The
// subcommands are in bench_*.cc.
#include "apps/bench_run.h"

namespace ridge::apps {

void register_bench(Command program, const AppContext& context) {
  Command app = program.add_subcommand(
      "bench", "Time one op, a module, a graph, attention, a whole model, or a server");
  app.require_subcommand();
  add_bench_op(app, context);
  add_bench_module(app, context);
  add_bench_graph(app, context);
  add_bench_attention(app, context);
  add_bench_shapes(app, context);
  add_bench_model(app, context);
  add_bench_serve(app, context);
  app.footer(
      "Examples:\n"
      "  ridge bench op softmax\n"
      "  ridge bench module mlp --config tiny --seq-len 32\n"
      "  ridge bench model gemma-3-270m-q4_k_m.gguf -p 512 -n 128\n"
      "  ridge bench serve http://localhost:8080 --clients 16");
}

}  // namespace ridge::apps
