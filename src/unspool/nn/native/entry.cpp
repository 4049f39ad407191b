// The entry of torch into kernels in C++: forward pass, place in autograd's graph, and backward pass of one small call. It
// runs one recurrence, or several of which each reads the output of the one before: at once, or one after the other.
//
// Compiled on the user's machine with the headers of the torch that is there; see entry.py. Whatever does not fit is left
// to Python: `call` then returns nothing, and a backward pass asks `unspool::differentiate`.
#include <Python.h>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum { START = 1, SAME = 4, WAVE = 256 };  // of call.h
int64_t forked = 0;                        // FORKED of call.h, in the child of a fork

// What the calls of a layer's kernel have in common.
struct Plan {
    int (*forward)(const char*);
    int (*backward)(const char*);
    int (*wave)(const char*);
    at::ScalarType type;
    int64_t itemsize, reverse, record, x_width;
    std::vector<int64_t> sizes, places, widths;
    std::vector<std::vector<int64_t>> parameters;  // the shape of each

    size_t states() const { return widths.size(); }
};

// Layers of which each reads the output of the one before; the most bytes of a tape in a small call of them; and whether the
// final states of all layers lie together, layer by layer, or each for itself.
struct Chain {
    std::vector<Plan> layers;
    int64_t most;
    bool stacked;
};

std::mutex adding;
std::deque<Chain> chains;  // never freed, as little as libraries are: graphs refer to them

// A fork waits for whoever adds or looks up a chain: in the child no other thread is there to let go.
void handle_forks() { pthread_atfork([] { adding.lock(); }, [] { adding.unlock(); }, [] { adding.unlock(); }); }

const Chain& chain_at(int64_t number) {
    std::lock_guard<std::mutex> lock(adding);
    TORCH_CHECK(0 <= number && number < int64_t(chains.size()), "there is no chain ", number);
    return chains[number];
}

// Memory as at::empty gives it, without its way through torch's dispatcher.
Tensor make(at::IntArrayRef sizes, const Plan& plan) { return at::detail::empty_cpu(sizes, plan.type); }

// Whether a tensor is not just numbers in memory: a subclass, wrapped by a transform, numbers with other signs, or zeros
// without memory.
bool is_special(const Tensor& tensor) {
    static constexpr auto special =
        at::kTensorSubclassLike | c10::DispatchKeySet({c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});
    return !(tensor.key_set() & special).empty();
}

// Whether a kernel can take the tensor as it is: of this shape, side by side, with memory behind all of its numbers.
bool is_ready(const Tensor& tensor, at::IntArrayRef shape, const Plan& plan) {
    if (!tensor.defined() || tensor.scalar_type() != plan.type || !tensor.is_cpu() || tensor.layout() != at::kStrided)
        return false;
    if (tensor.sizes() != shape || !tensor.is_contiguous() || is_special(tensor)) return false;
    const auto held = int64_t(tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes());
    if (held < (tensor.numel() + tensor.storage_offset()) * plan.itemsize) return false;
    return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % plan.itemsize == 0;
}

// A layer of a call: its plan, where its states (or none) and its parameters stand among the call's tensors, and where its
// final states stand among those of all layers, if each is for itself.
struct Layer {
    const Plan* plan;
    size_t states, parameters, end, finals;

    size_t given() const { return parameters - states; }
};

// The layers of a call, and whether x, and the states (or none) and the parameters of each, fit them.
struct Layers {
    int64_t steps = 0, rows = 0;
    c10::SmallVector<Layer, 4> each;
    bool together, fit = false;

    Layers(const Chain& chain, at::TensorList tensors) : together(chain.stacked) {
        size_t parameters = 0, states = 0;
        for (const Plan& plan : chain.layers) {
            each.push_back({&plan, 0, 0, 0, states});
            parameters += plan.parameters.size();
            states += plan.states();
        }
        const bool given = tensors.size() == 1 + states + parameters;
        if (!given && tensors.size() != 1 + parameters) return;
        const Tensor& x = tensors[0];
        if (!x.defined() || x.dim() != 3) return;
        steps = x.size(0), rows = x.size(1);
        if (steps < 1 || rows < 1 || !is_ready(x, {steps, rows, each[0].plan->x_width}, *each[0].plan)) return;
        size_t end = 1;
        for (size_t k = 0; k < each.size(); ++k) {
            const Plan& plan = *each[k].plan;
            if (k && (plan.x_width != each[k - 1].plan->widths[0] || plan.type != each[0].plan->type)) return;
            each[k].states = end;
            each[k].parameters = end += given ? plan.states() : 0;
            each[k].end = end += plan.parameters.size();
            for (size_t s = 0; s < each[k].given(); ++s)
                if (!is_ready(tensors[each[k].states + s], {rows, plan.widths[s]}, plan)) return;
            for (size_t p = 0; p < plan.parameters.size(); ++p)
                if (!is_ready(tensors[each[k].parameters + p], plan.parameters[p], plan)) return;
        }
        fit = true;
    }

    size_t size() const { return each.size(); }
    const Plan& plan(size_t k) const { return *each[k].plan; }
    const Plan& top() const { return *each.back().plan; }
    int64_t tape(size_t k) const { return steps * rows * plan(k).record; }
    at::DimVector shape_of_final(size_t k, size_t state) const {
        const int64_t width = plan(k).widths[state];
        return together ? at::DimVector{int64_t(size()), rows, width} : at::DimVector{rows, width};
    }
    size_t finals() const { return together ? plan(0).states() : each.back().finals + top().states(); }
};

// The words that a kernel reads: see Call in call.h.
struct Words {
    c10::SmallVector<int64_t, 64> words;
    int (*function)(const char*) = nullptr;

    void add(int64_t word) { words.push_back(word); }
    void add(const void* place) { add(int64_t(reinterpret_cast<uintptr_t>(place))); }
    void add(const Tensor& tensor) { add(tensor.defined() ? tensor.const_data_ptr() : nullptr); }
    void add_parameters_and_states(const Layer& layer, at::TensorList tensors) {
        for (size_t at = layer.parameters; at < layer.end; ++at) add(tensors[at]);
        for (size_t at = layer.states; at < layer.parameters; ++at) add(tensors[at]);
    }
    // The final states of a layer, or their gradients: of several together, the layer's part.
    void add_finals(const Layers& layers, size_t k, at::TensorList found) {
        const Plan& plan = layers.plan(k);
        for (size_t s = 0; s < plan.states(); ++s) {
            const Tensor& one = found[layers.together ? s : layers.each[k].finals + s];
            const int64_t before = layers.together ? int64_t(k) * layers.rows * plan.widths[s] * plan.itemsize : 0;
            add(one.defined() ? static_cast<const char*>(one.const_data_ptr()) + before : nullptr);
        }
    }
    void begin(const Layers& layers, size_t k, int64_t flags) {
        const Plan& plan = layers.plan(k);
        for (int64_t word : {layers.steps, layers.rows, int64_t(at::get_num_threads()), plan.reverse}) add(word);
        add(static_cast<const void*>(plan.sizes.data()));
        add(static_cast<const void*>(plan.places.data()));
        for (int64_t word : {int64_t(plan.parameters.size()), int64_t(0), flags | forked | (layers.each[k].given() ? START : 0)})
            add(word);
    }
    char* bytes() { return reinterpret_cast<char*>(words.data()); }
};
constexpr size_t GIVEN = 8;  // the word with the flags

void check(int failed) { TORCH_CHECK(!failed, "not enough memory for a kernel"); }

// Several calls of which each reads what the one before writes, step by step.
void run_at_once(Words* calls, size_t count, const Plan& plan) {
    struct alignas(64) Place {
        std::atomic<int64_t> finished{0};
    };
    std::vector<Place> places(count);
    Words wave;
    for (int64_t word : {int64_t(count), int64_t(at::get_num_threads()), int64_t(forked != 0)}) wave.add(word);
    for (size_t i = 0; i < count; ++i) {
        calls[i].words[GIVEN] |= WAVE;
        calls[i].add(static_cast<const void*>(i ? &places[i - 1] : nullptr));
        calls[i].add(static_cast<const void*>(&places[i]));
    }
    for (size_t i = 0; i < count; ++i) {
        wave.add(reinterpret_cast<const void*>(calls[i].function));
        wave.add(static_cast<const void*>(calls[i].bytes()));
        wave.add(static_cast<const void*>(&places[i]));
    }
    check(plan.wave(wave.bytes()));
}

using Calls = c10::SmallVector<Words, 4>;

// Runs calls in the order in which they depend on each other: one by one, or as many at once as there are threads, in as
// few groups as can be, the larger ones first.
void run(Calls& calls, const Plan& plan, bool at_once) {
    const size_t threads = at_once ? size_t(at::get_num_threads()) : 1, groups = (calls.size() + threads - 1) / threads;
    size_t first = 0;
    for (size_t left = groups; left > 0; --left) {
        const size_t count = (calls.size() - first + left - 1) / left;
        if (count > 1) run_at_once(&calls[first], count, plan);
        else check(calls[first].function(calls[first].bytes()));
        first += count;
    }
}

// Output, final states, then what is kept for the backward pass beside them: the outputs of the layers below, and the tapes.
variable_list run_forward(const Layers& layers, at::TensorList tensors, bool keep, bool at_once) {
    variable_list outs, found, tapes;
    outs.reserve(layers.size());
    tapes.reserve(layers.size());
    for (const Layer& layer : layers.each) outs.push_back(make({layers.steps, layers.rows, layer.plan->widths[0]}, *layer.plan));
    found.reserve(1 + layers.finals() + 2 * layers.size());
    found.push_back(outs.back());
    for (size_t k = 0; k < (layers.together ? 1 : layers.size()); ++k)
        for (size_t s = 0; s < layers.plan(k).states(); ++s)
            found.push_back(make(layers.shape_of_final(k, s), layers.plan(k)));
    Calls calls(layers.size());
    for (size_t k = 0; k < layers.size(); ++k) {
        const Plan& plan = layers.plan(k);
        tapes.push_back(keep ? make({layers.tape(k)}, plan) : Tensor());
        Words& words = calls[k];
        words.function = plan.forward;
        words.begin(layers, k, 0);
        words.add(k ? outs[k - 1] : tensors[0]);
        words.add(outs[k]);
        words.add(int64_t(0));
        words.add(tapes[k]);
        words.add(int64_t(0));
        words.add(int64_t(0));
        words.add_parameters_and_states(layers.each[k], tensors);
        words.add_finals(layers, k, at::TensorList(found).slice(1));
    }
    run(calls, layers.plan(0), at_once);
    if (keep) {
        found.insert(found.end(), outs.begin(), outs.end() - 1);
        found.insert(found.end(), tapes.begin(), tapes.end());
    }
    return found;
}

// One row of the output's gradient where all steps and rows share their memory, as in the gradient of a sum.
Tensor find_row(const Tensor& gradient, const Plan& plan) {
    const int64_t width = plan.widths[0], stride = gradient.stride(2);
    const int64_t last = gradient.storage_offset() + (width - 1) * stride;
    const bool held = gradient.scalar_type() == plan.type && gradient.is_cpu() && stride >= 0 &&
                      int64_t(gradient.storage().nbytes()) >= (last + 1) * plan.itemsize;
    if (!held || reinterpret_cast<uintptr_t>(gradient.const_data_ptr()) % plan.itemsize) return {};
    Tensor row = make({width}, plan);
    const auto* from = static_cast<const char*>(gradient.const_data_ptr());
    auto* to = static_cast<char*>(row.mutable_data_ptr());
    for (int64_t j = 0; j < width; ++j)
        std::memcpy(to + j * plan.itemsize, from + j * stride * plan.itemsize, plan.itemsize);
    return row;
}

// Gradients of x, if it is wanted, of the states and of the parameters, from the layer `lowest` on; nothing if Python has to
// look at the call. `kept` is the output, the outputs of the layers below, and the tapes.
variable_list run_backward(
    const Layers& layers, at::TensorList tensors, at::TensorList kept, at::TensorList gradients, size_t lowest, bool wants_x,
    bool at_once
) {
    const Plan& top = layers.top();
    const size_t last = layers.size() - 1;
    const auto out_of = [&](size_t k) -> const Tensor& { return kept[k == last ? 0 : 1 + k]; };
    const auto tape_of = [&](size_t k) -> const Tensor& { return kept[1 + last + k]; };
    for (size_t k = 0; k <= last; ++k) {
        const Plan& plan = layers.plan(k);
        if (!is_ready(out_of(k), {layers.steps, layers.rows, plan.widths[0]}, plan)) return {};
        if (!is_ready(tape_of(k), {layers.tape(k)}, plan)) return {};
    }
    const at::DimVector shape{layers.steps, layers.rows, top.widths[0]};
    bool same = false;
    Tensor d_out = gradients[0];
    if (d_out.defined()) {
        if (d_out.sizes() != shape || is_special(d_out) || !d_out.storage()) return {};
        if (d_out.stride(0) == 0 && d_out.stride(1) == 0) {
            d_out = find_row(d_out, top);
            same = true;
            if (!d_out.defined()) return {};
        } else if (!is_ready(d_out, shape, top)) {
            return {};
        }
    }
    for (size_t k = 0; k < (layers.together ? 1 : layers.size()); ++k)
        for (size_t s = 0; s < layers.plan(k).states(); ++s) {
            const Tensor& gradient = gradients[1 + layers.each[k].finals + s];
            if (gradient.defined() && !is_ready(gradient, layers.shape_of_final(k, s), layers.plan(k))) return {};
        }
    variable_list found(tensors.size()), between;
    Calls calls(layers.size() - lowest);
    between.reserve(layers.size() + 1);
    between.push_back(d_out);
    for (size_t k = layers.size(); k-- > lowest;) {
        const Plan& plan = layers.plan(k);
        const Layer& layer = layers.each[k];
        for (size_t at = layer.states; at < layer.end; ++at) found[at] = make(tensors[at].sizes(), plan);
        Tensor d_x;
        if (k ? k > lowest : wants_x) d_x = make({layers.steps, layers.rows, plan.x_width}, plan);
        Words& words = calls[last - k];
        words.function = plan.backward;
        words.begin(layers, k, same && k == last ? SAME : 0);
        words.add(k ? out_of(k - 1) : tensors[0]);
        words.add(out_of(k));
        words.add(int64_t(0));
        words.add(tape_of(k));
        words.add(d_out);
        words.add(d_x);
        words.add_parameters_and_states(layer, tensors);
        words.add_finals(layers, k, gradients.slice(1));
        words.add_parameters_and_states(layer, found);
        between.push_back(d_x);  // lives until all calls have run
        d_out = d_x;
    }
    if (!lowest) found[0] = between.back();
    run(calls, layers.plan(0), at_once);
    return found;
}

// The gradients that are wanted, by Python: where they are differentiated again, come in a batch, do not fit, or where
// torch records the operations.
variable_list ask_python(
    int64_t number, const variable_list& saved, const variable_list& gradients, const c10::List<bool>& wanted
) {
    static const auto operation = c10::Dispatcher::singleton().findSchemaOrThrow("unspool::differentiate", "");
    c10::List<std::optional<Tensor>> given;
    for (const Tensor& gradient : gradients)
        given.push_back(gradient.defined() ? std::optional<Tensor>(gradient) : std::nullopt);
    torch::jit::Stack stack{number, saved, given, wanted};
    operation.callBoxed(&stack);
    return stack.back().toTensorVector();
}

struct Recurrence : torch::autograd::Function<Recurrence> {
    struct Asked {
        int64_t number;
        bool at_once;
        const Layers& layers;
        Tensor out;  // once it is there
    };

    static variable_list forward(AutogradContext* context, Asked& asked, at::TensorList tensors) {
        const Layers& layers = asked.layers;
        variable_list found = run_forward(layers, tensors, true, asked.at_once);
        asked.out = found[0];
        variable_list saved;
        saved.reserve(tensors.size() + 2 * layers.size());
        saved.insert(saved.end(), tensors.begin(), tensors.end());
        saved.push_back(found[0]);
        const auto kept = found.begin() + 1 + layers.finals();
        saved.insert(saved.end(), std::make_move_iterator(kept), std::make_move_iterator(found.end()));
        found.erase(kept, found.end());
        context->saved_data["chain"] = asked.number;
        context->saved_data["at once"] = asked.at_once;
        context->save_for_backward(std::move(saved));
        context->set_materialize_grads(false);
        return found;
    }

    static variable_list backward(AutogradContext* context, variable_list gradients) {
        const int64_t number = context->saved_data["chain"].toInt();
        const Chain& chain = chain_at(number);
        const variable_list saved = context->get_saved_variables();
        const size_t count = saved.size() - 2 * chain.layers.size();
        variable_list found(1 + count);  // what was asked has none
        bool any = false;
        for (const Tensor& gradient : gradients) any |= gradient.defined();
        if (!any) return found;
        if (!at::GradMode::is_enabled() && !c10::impl::TorchDispatchModeTLS::any_modes_set()) {
            const at::TensorList all(saved);
            const Layers layers(chain, all.slice(0, count));
            size_t lowest = 0;  // below it, no gradient is wanted
            while (lowest + 1 < layers.size() && layers.fit && !wants_any(context, lowest ? layers.each[lowest].states : 0, layers.each[lowest].end))
                ++lowest;
            variable_list mine;
            if (layers.fit)
                mine = run_backward(
                    layers, all.slice(0, count), all.slice(count), gradients, lowest, context->needs_input_grad(0),
                    context->saved_data["at once"].toBool()
                );
            if (!mine.empty()) {
                std::move(mine.begin(), mine.end(), found.begin() + 1);
                return found;
            }
        }
        c10::List<bool> wanted;
        for (size_t at = 0; at < count; ++at) wanted.push_back(context->needs_input_grad(at));
        variable_list asked = ask_python(number, saved, gradients, wanted);
        auto next = asked.begin();
        for (size_t at = 0; at < count; ++at)
            if (wanted[at]) found[1 + at] = *next++;
        return found;
    }

    static bool wants_any(AutogradContext* context, size_t first, size_t end) {
        while (first < end && !context->needs_input_grad(first)) ++first;
        return first < end;
    }
};

// Output and final states; nothing if Python has to look at the call, or if it is not small. `at_once` if layers may run at
// once, each in a thread.
variable_list call(int64_t number, at::TensorList tensors, bool at_once) {
    const Chain& chain = chain_at(number);
    const Layers layers(chain, tensors);
    if (!layers.fit || at::autocast::is_autocast_enabled(at::kCPU)) return {};
    // Hooks count what is saved, as checkpoints do: as much as by the way through Python, which another call may take.
    if (layers.size() > 1 && at::SavedTensorDefaultHooks::is_enabled() && at::SavedTensorDefaultHooks::get_hooks()) return {};
    for (size_t k = 0; k < layers.size(); ++k)
        if (layers.tape(k) * layers.plan(k).itemsize > chain.most) return {};
    const auto differentiable = [](const Tensor& tensor) { return tensor.requires_grad(); };
    if (!at::GradMode::is_enabled() || std::none_of(tensors.begin(), tensors.end(), differentiable))
        return run_forward(layers, tensors, false, at_once);
    Recurrence::Asked asked{number, at_once, layers, {}};
    try {
        return Recurrence::apply(asked, tensors);
    } catch (...) {  // as a hook may throw: what was to be saved holds the node, which holds it
        if (asked.out.defined() && asked.out.grad_fn())
            static_cast<torch::autograd::CppNode<Recurrence>&>(*asked.out.grad_fn()).ctx_.save_for_backward({});
        throw;
    }
}

// `call` as a function of Python's: a chain's number, a tuple of tensors, and whether layers may run at once.
PyObject* call_from_python(PyObject*, PyObject* const* given, Py_ssize_t count) {
    HANDLE_TH_ERRORS
    TORCH_CHECK_TYPE(count == 3 && PyTuple_Check(given[1]), "give a number, a tuple of tensors, and whether at once");
    const int64_t number = PyLong_AsLongLong(given[0]);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    c10::SmallVector<Tensor, 16> tensors;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given[1]); ++i) {
        PyObject* one = PyTuple_GET_ITEM(given[1], i);
        TORCH_CHECK_TYPE(THPVariable_Check(one), "not all are tensors");
        tensors.push_back(THPVariable_Unpack(one));
    }
    const bool at_once = given[2] == Py_True;
    variable_list found;
    {
        pybind11::gil_scoped_release others_may_run;
        found = call(number, tensors, at_once);
    }
    THPObjectPtr results(PyTuple_New(Py_ssize_t(found.size())));
    if (!results) return nullptr;
    for (size_t i = 0; i < found.size(); ++i) {
        PyObject* one = THPVariable_Wrap(std::move(found[i]));
        if (!one) return nullptr;
        PyTuple_SET_ITEM(results.get(), Py_ssize_t(i), one);
    }
    return results.release();
    END_HANDLE_TH_ERRORS
}

}  // namespace

#define UNSPOOL_PUBLIC extern "C" __attribute__((visibility("default")))

// The function for Python, `call`, once per process; or null, and an exception.
UNSPOOL_PUBLIC PyObject* unspool_entry() {
    static PyMethodDef method{"call", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_from_python)), METH_FASTCALL, nullptr};
    static const bool once = (handle_forks(), true);
    (void)once;
    return PyCFunction_New(&method, nullptr);
}

// Add a chain of so many layers, and give its number. It is no operator: a program from elsewhere must not bring addresses
// of functions. Per layer there are three functions, four numbers, and three lists, then the shapes of the parameters.
UNSPOOL_PUBLIC int64_t unspool_add_chain(
    int64_t layers, int64_t most, int64_t stacked, void* const* functions, const int64_t* numbers, const int64_t* counts, const int64_t* lists,
    const int64_t* parameters
) {
    auto next = [&lists, &counts] {
        std::vector<int64_t> found(lists, lists + *counts);
        lists += *counts++;
        return found;
    };
    using Function = int (*)(const char*);
    Chain chain{{}, most, stacked != 0};
    for (int64_t k = 0; k < layers; ++k, functions += 3, numbers += 4) {
        Plan plan{
            Function(functions[0]), Function(functions[1]), Function(functions[2]), numbers[0] == 4 ? at::kFloat : at::kDouble,
            numbers[0], numbers[1], numbers[2], numbers[3], {}, {}, {}, {}
        };
        for (auto* list : {&plan.sizes, &plan.places, &plan.widths}) *list = next();
        for (int64_t p = 0; p < parameters[k]; ++p) plan.parameters.push_back(next());
        chain.layers.push_back(std::move(plan));
    }
    std::lock_guard<std::mutex> lock(adding);
    chains.push_back(std::move(chain));
    return int64_t(chains.size()) - 1;
}

// In the child of a fork, whose kernels must not use the threads of its parent.
UNSPOOL_PUBLIC void unspool_after_fork(int64_t flag) { forked = flag; }
