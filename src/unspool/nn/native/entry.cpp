// The entry of torch into kernels in C++: forward pass, place in autograd's graph, and backward pass of one small call.
//
// Compiled on the user's machine with the headers of the torch that is there; see entry.py. Whatever does not fit is left
// to Python: `call` then returns nothing, and a backward pass asks `unspool::differentiate`.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

enum { START = 1, SAME = 4 };  // of plan.h
int64_t forked = 0;            // FORKED of plan.h, in the child of a fork

// What the calls of a kernel have in common.
struct Plan {
    int (*forward)(const char*);
    int (*backward)(const char*);
    at::ScalarType type;
    int64_t itemsize, reverse, stacked, record, x_width;
    std::vector<int64_t> sizes, places, widths, parameters;  // the last: how many numbers each has

    size_t states() const { return widths.size(); }
};

std::mutex adding;
std::deque<Plan> plans;  // never freed, as little as libraries are: graphs refer to them

// A fork waits for whoever adds or looks up a plan: in the child no other thread is there to let go.
void handle_forks() { pthread_atfork([] { adding.lock(); }, [] { adding.unlock(); }, [] { adding.unlock(); }); }

const Plan& plan_at(int64_t number) {
    std::lock_guard<std::mutex> lock(adding);
    TORCH_CHECK(0 <= number && number < int64_t(plans.size()), "there is no plan ", number);
    return plans[number];
}

// Memory as at::empty gives it, without its way through torch's dispatcher.
Tensor make(at::IntArrayRef sizes, const Plan& plan) { return at::detail::empty_cpu(sizes, plan.type); }

// Whether a kernel can take the tensor as it is: so many numbers, side by side, with memory behind all of them.
bool is_ready(const Tensor& tensor, int64_t numbers, const Plan& plan) {
    if (!tensor.defined() || tensor.scalar_type() != plan.type || !tensor.is_cpu() || tensor.layout() != at::kStrided)
        return false;
    if (tensor.numel() != numbers || !tensor.is_contiguous() || at::isTensorSubclassLike(tensor) || tensor.is_neg())
        return false;
    const auto held = int64_t(tensor.unsafeGetTensorImpl()->unsafe_storage().nbytes());
    if (held < (numbers + tensor.storage_offset()) * plan.itemsize) return false;
    return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % plan.itemsize == 0;
}

// The sizes of a call, and whether x, the states (or none) and the parameters fit it.
struct Shape {
    int64_t steps = 0, rows = 0;
    size_t given = 0;  // states
    bool fits = false;

    Shape(const Plan& plan, at::TensorList tensors) {
        const size_t count = plan.parameters.size();
        if (tensors.size() != 1 + count && tensors.size() != 1 + count + plan.states()) return;
        const Tensor& x = tensors[0];
        if (!x.defined() || x.dim() != 3) return;
        steps = x.size(0), rows = x.size(1), given = tensors.size() - 1 - count;
        if (x.size(2) != plan.x_width || steps < 1 || rows < 1 || !is_ready(x, steps * rows * plan.x_width, plan)) return;
        for (size_t k = 0; k < given; ++k)
            if (!is_ready(tensors[1 + k], rows * plan.widths[k], plan)) return;
        for (size_t p = 0; p < count; ++p)
            if (!is_ready(tensors[1 + given + p], plan.parameters[p], plan)) return;
        fits = true;
    }

    int64_t tape(const Plan& plan) const { return steps * rows * plan.record; }
};

// The words that a kernel reads: see Call in call.h.
struct Words {
    c10::SmallVector<int64_t, 64> words;

    void add(int64_t word) { words.push_back(word); }
    void add(const void* place) { add(int64_t(reinterpret_cast<uintptr_t>(place))); }
    void add(const Tensor& tensor) { add(tensor.defined() ? tensor.const_data_ptr() : nullptr); }
    void add_parameters_and_states(const Shape& shape, at::TensorList tensors) {
        for (size_t at = 1 + shape.given; at < tensors.size(); ++at) add(tensors[at]);
        for (size_t at = 1; at <= shape.given; ++at) add(tensors[at]);
    }
    void begin(const Plan& plan, const Shape& shape, int64_t flags) {
        for (int64_t word : {shape.steps, shape.rows, int64_t(at::get_num_threads()), plan.reverse}) add(word);
        add(static_cast<const void*>(plan.sizes.data()));
        add(static_cast<const void*>(plan.places.data()));
        for (int64_t word : {int64_t(plan.parameters.size()), int64_t(0), flags | forked | (shape.given ? START : 0)})
            add(word);
    }
    void run(int (*function)(const char*)) const {
        TORCH_CHECK(!function(reinterpret_cast<const char*>(words.data())), "not enough memory for a kernel");
    }
};

// Output and final states; the tape is filled if it is defined.
variable_list run_forward(const Plan& plan, const Shape& shape, at::TensorList tensors, const Tensor& tape) {
    variable_list found{make({shape.steps, shape.rows, plan.widths[0]}, plan)};
    for (int64_t width : plan.widths)
        found.push_back(plan.stacked ? make({1, shape.rows, width}, plan) : make({shape.rows, width}, plan));
    Words words;
    words.begin(plan, shape, 0);
    words.add(tensors[0]);
    words.add(found[0]);
    words.add(int64_t(0));
    words.add(tape);
    words.add(int64_t(0));
    words.add(int64_t(0));
    words.add_parameters_and_states(shape, tensors);
    for (size_t k = 0; k < plan.states(); ++k) words.add(found[1 + k]);
    words.run(plan.forward);
    return found;
}

// One row of the output's gradient where all steps and rows share their memory, as in the gradient of a sum.
Tensor find_row(const Tensor& gradient, const Plan& plan) {
    const int64_t width = plan.widths[0], stride = gradient.stride(2);
    const int64_t last = gradient.storage_offset() + (width - 1) * stride;
    const bool held = gradient.scalar_type() == plan.type && gradient.is_cpu() && stride >= 0 && !gradient.is_neg() &&
                      int64_t(gradient.storage().nbytes()) >= (last + 1) * plan.itemsize;
    if (!held || reinterpret_cast<uintptr_t>(gradient.const_data_ptr()) % plan.itemsize) return {};
    Tensor row = make({width}, plan);
    const auto* from = static_cast<const char*>(gradient.const_data_ptr());
    auto* to = static_cast<char*>(row.mutable_data_ptr());
    for (int64_t j = 0; j < width; ++j)
        std::memcpy(to + j * plan.itemsize, from + j * stride * plan.itemsize, plan.itemsize);
    return row;
}

// Gradients of x, if it is wanted, of the states and of the parameters; nothing if Python has to look at the call.
variable_list run_backward(
    const Plan& plan, at::TensorList tensors, const Tensor& out, const Tensor& tape, variable_list& gradients, bool wants_x
) {
    const Shape shape(plan, tensors);
    if (!shape.fits) return {};
    const int64_t numbers = shape.steps * shape.rows * plan.widths[0];
    if (!is_ready(out, numbers, plan) || !is_ready(tape, shape.tape(plan), plan)) return {};
    bool same = false;
    if (Tensor& d_out = gradients[0]; d_out.defined()) {
        if (d_out.numel() != numbers || d_out.dim() != 3 || at::isTensorSubclassLike(d_out) || !d_out.storage()) return {};
        if (d_out.stride(0) == 0 && d_out.stride(1) == 0) {
            d_out = find_row(d_out, plan);
            same = true;
            if (!d_out.defined()) return {};
        } else if (!is_ready(d_out, numbers, plan)) {
            return {};
        }
    }
    for (size_t k = 0; k < plan.states(); ++k)
        if (gradients[1 + k].defined() && !is_ready(gradients[1 + k], shape.rows * plan.widths[k], plan)) return {};
    variable_list found(tensors.size());
    for (size_t at = wants_x ? 0 : 1; at < tensors.size(); ++at)
        found[at] = make(tensors[at].sizes(), plan);
    Words words;
    words.begin(plan, shape, same ? SAME : 0);
    words.add(tensors[0]);
    words.add(out);
    words.add(int64_t(0));
    words.add(tape);
    words.add(gradients[0]);
    words.add(found[0]);
    words.add_parameters_and_states(shape, tensors);
    for (size_t k = 0; k < plan.states(); ++k) words.add(gradients[1 + k]);
    words.add_parameters_and_states(shape, found);
    words.run(plan.backward);
    return found;
}

// The gradients that are wanted, by Python: where they are differentiated again, come in a batch, do not fit, or where
// torch records the operations.
variable_list ask_python(int64_t number, const variable_list& saved, const variable_list& gradients, const c10::List<bool>& wanted) {
    static const auto operation = c10::Dispatcher::singleton().findSchemaOrThrow("unspool::differentiate", "");
    c10::List<std::optional<Tensor>> given;
    for (const Tensor& gradient : gradients)
        given.push_back(gradient.defined() ? std::optional<Tensor>(gradient) : std::nullopt);
    torch::jit::Stack stack{number, saved, given, wanted};
    operation.callBoxed(&stack);
    return stack.back().toTensorVector();
}

struct Recurrence : torch::autograd::Function<Recurrence> {
    static variable_list forward(AutogradContext* context, int64_t number, at::TensorList tensors) {
        const Plan& plan = plan_at(number);
        const Shape shape(plan, tensors);
        const Tensor tape = make({shape.tape(plan)}, plan);
        variable_list found = run_forward(plan, shape, tensors, tape);
        variable_list saved = tensors.vec();
        saved.push_back(found[0]);
        saved.push_back(tape);
        context->saved_data["plan"] = number;
        context->save_for_backward(std::move(saved));
        context->set_materialize_grads(false);
        return found;
    }

    static variable_list backward(AutogradContext* context, variable_list gradients) {
        const int64_t number = context->saved_data["plan"].toInt();
        const variable_list saved = context->get_saved_variables();
        const size_t count = saved.size() - 2;
        variable_list found(1 + count);  // the plan's number has none
        bool any = false;
        for (const Tensor& gradient : gradients) any |= gradient.defined();
        if (!any) return found;
        if (!at::GradMode::is_enabled() && !c10::impl::TorchDispatchModeTLS::any_modes_set()) {
            variable_list kept = gradients;
            variable_list mine = run_backward(
                plan_at(number), at::TensorList(saved.data(), count), saved[count], saved[count + 1], kept,
                context->needs_input_grad(0)
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
};

// Output and final states; nothing if Python has to look at the call, or if its tape takes more than `most` bytes.
variable_list call(int64_t number, at::TensorList tensors, int64_t most) {
    const Plan& plan = plan_at(number);
    const Shape shape(plan, tensors);
    if (!shape.fits || shape.tape(plan) * plan.itemsize > most) return {};
    const auto differentiable = [](const Tensor& tensor) { return tensor.requires_grad(); };
    if (at::GradMode::is_enabled() && std::any_of(tensors.begin(), tensors.end(), differentiable))
        return Recurrence::apply(number, tensors);
    return run_forward(plan, shape, tensors, Tensor());
}

}  // namespace

#define UNSPOOL_PUBLIC extern "C" __attribute__((visibility("default")))

// Make the operator `unspool::call`. What went wrong, or null.
UNSPOOL_PUBLIC const char* unspool_register() {
    static std::string problem;
    try {
        static torch::Library library(torch::Library::FRAGMENT, "unspool", std::nullopt, __FILE__, __LINE__);
        library.def("call(int plan, Tensor[] tensors, int most) -> Tensor[]", &call);
        handle_forks();  // here once: a second definition fails
    } catch (const std::exception& error) {
        problem = error.what();
        return problem.c_str();
    }
    return nullptr;
}

// Add a plan, and give its number. It is no operator: a program from elsewhere must not bring addresses of functions.
UNSPOOL_PUBLIC int64_t unspool_add_plan(
    int (*forward)(const char*), int (*backward)(const char*), const int64_t* numbers, const int64_t* counts,
    const int64_t* lists
) {
    auto next = [&lists, &counts] {
        std::vector<int64_t> found(lists, lists + *counts);
        lists += *counts++;
        return found;
    };
    Plan plan{
        forward, backward, numbers[0] == 4 ? at::kFloat : at::kDouble, numbers[0], numbers[1], numbers[2], numbers[3],
        numbers[4], {}, {}, {}, {}
    };
    for (auto* list : {&plan.sizes, &plan.places, &plan.widths, &plan.parameters}) *list = next();
    std::lock_guard<std::mutex> lock(adding);
    plans.push_back(std::move(plan));
    return int64_t(plans.size()) - 1;
}

// In the child of a fork, whose kernels must not use the threads of its parent.
UNSPOOL_PUBLIC void unspool_after_fork(int64_t flag) { forked = flag; }
