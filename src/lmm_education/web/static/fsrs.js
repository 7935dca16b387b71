// When a card comes back: FSRS 5, the free spaced repetition scheduler, with its default parameters and two grades, for a
// retention of 90 %. Times are in days. What is kept stays in this browser.
import { COURSE, attempt } from "./storage.js";

const W = [0.40255, 1.18385, 3.173, 15.69105, 7.1949, 0.5345, 1.4604, 0.0046, 1.54575, 0.1192, 1.01925, 1.9395, 0.11,
  0.29605, 2.2698, 0.2315, 2.9898, 0.51655, 0.6621];
const DECAY = -0.5, FACTOR = 19 / 81;
export const AGAIN = 1, GOOD = 3;
const DAY = 86_400_000, PLACE = `lmm-cards ${COURSE}`;

const clamp = (difficulty) => Math.min(10, Math.max(1, difficulty));
const first = (grade) => clamp(W[4] - Math.exp(W[5] * (grade - 1)) + 1);

// The state of a card after a review: stability and difficulty, and when it was reviewed and is due, in days since 1970.
export function reviewed(card, grade, now = Date.now() / DAY) {
  if (!card) {
    const stability = W[grade - 1];
    return { stability, difficulty: first(grade), at: now, due: due(grade, stability, now) };
  }
  const { stability: s, difficulty: d } = card, passed = Math.max(0, now - card.at);
  const recalled = (1 + FACTOR * passed / s) ** DECAY;
  const stability = passed < 1 ? s * Math.exp(W[17] * (grade - 3 + W[18]))
    : grade === AGAIN ? Math.min(s, W[11] * d ** -W[12] * ((s + 1) ** W[13] - 1) * Math.exp(W[14] * (1 - recalled)))
      : s * (1 + Math.exp(W[8]) * (11 - d) * s ** -W[9] * (Math.exp(W[10] * (1 - recalled)) - 1));
  const nearer = d - W[6] * (grade - 3) * (10 - d) / 9;
  return { stability, difficulty: clamp(W[7] * first(4) + (1 - W[7]) * nearer), at: now, due: due(grade, stability, now) };
}

// A forgotten card comes back at once, a known one when 90 % still know it.
const due = (grade, stability, now) => (grade === AGAIN ? now : now + Math.max(1, Math.round(stability)));

export const kept = () => attempt(() => JSON.parse(localStorage.getItem(PLACE)), null) ?? {};

export function review(id, grade) {
  const cards = kept();
  cards[id] = reviewed(cards[id], grade);
  attempt(() => localStorage.setItem(PLACE, JSON.stringify(cards)));
  return cards[id];
}
