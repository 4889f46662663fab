// Exercises of a page: checks a typed answer as apviz/widgets/exercise.py checks an answer that is a text.

const FEW_DIGITS = 2, LOOSE = 1e-3;

// NaN for anything but a number such as 0.25, 2e-3 or 1/12
function numberOf(text) {
  const parts = text.replace("−", "-").split("/").map((part) => part.trim());
  const isNumber = (part) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(part);
  if (parts.length > 2 || !parts.every(isNumber)) return NaN;
  return parts.length === 2 ? Number(parts[0]) / Number(parts[1]) : Number(parts[0]);
}

// whether a typed number is another one, rounded to the typed digits
function isRounded(text, right) {
  const [mantissa, exponent = "0"] = text.trim().replace("−", "-").toLowerCase().split("e");
  const [whole, decimals = ""] = mantissa.replace(/^[+-]/, "").split(".");
  const digits = (whole + decimals).replace(/^0+/, "");
  if (text.includes("/") || Number.isInteger(right) || digits.length < FEW_DIGITS) return false;
  return Math.abs(numberOf(text) - right) <= 0.5000001 * 10 ** (Number(exponent) - decimals.length);
}

function farthest(one, other) {
  return Math.max(...one.map((each, place) => Math.abs(each - other[place])));
}

function judgeNumbers(exercise, typed) {
  const {right, tolerance, digits, mistakes} = exercise;
  const entries = right.length === 1 ? [typed] : typed.replace(/[[\]()]/g, " ").trim().split(/[\s,;]+/);
  const yours = entries.map(numberOf), scaleOf = (numbers) => farthest(numbers, numbers.map(() => 0)) || 1;
  if (right.length === 1 && typed.includes(",")) return [false, "Write a decimal point, not a comma."];
  if (entries.length !== right.length) return [false, `Give ${right.length} numbers, with commas between them.`];
  if (!yours.every(Number.isFinite)) return [false, "Give a number, such as 0.25, 2e-3 or 1/12."];
  const near = tolerance * scaleOf(right);
  if (farthest(yours, right) <= near) return [true, ""];
  const isRight = (text, place) => {
    return (right.length > 1 && Math.abs(yours[place] - right[place]) <= near) || isRounded(text, right[place]);
  };
  if (entries.every(isRight)) return [true, digits];
  const known = mistakes.find(([, wrong]) => farthest(yours, wrong) <= Math.max(tolerance, LOOSE) * scaleOf(wrong));
  if (known) return [false, known[0]];
  const place = yours.findIndex((each, k) => Math.abs(each - right[k]) > near && !isRounded(entries[k], right[k]));
  const which = right.length === 1 ? "Yours" : `Number ${place + 1}`;
  return [false, `${which} is too ${yours[place] > right[place] ? "large" : "small"}.`];
}

function judgeText({right, mistakes}, typed) {
  const plain = (text) => String(text).trim().toLowerCase();
  const yours = plain(typed.trim().replace(/^["'](.*)["']$/, "$1"));
  if (yours === plain(right)) return [true, ""];
  return [false, mistakes.find(([, wrong]) => plain(wrong) === yours)?.[0] ?? `Your answer: ${typed.trim()}.`];
}

// whether a typed answer is right, and why
function judge(exercise, typed) {
  return exercise.kind === "numbers" ? judgeNumbers(exercise, typed) : judgeText(exercise, typed);
}

for (const form of document.querySelectorAll("form.exercise")) {
  const exercise = JSON.parse(form.dataset.exercise), said = form.querySelector("output");
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = form.elements.answer.value;
    const [found, why] = typed.trim() ? judge(exercise, typed) : [false, "No answer yet."];
    const hint = found || !exercise.hint ? "" : `Hint: ${exercise.hint}`;
    said.className = found ? "right" : "wrong";
    said.textContent = [found ? "✓ Right." : "✗ Not yet.", why, hint].filter(Boolean).join(" ");
  });
}
