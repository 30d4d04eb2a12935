import type { SoakRequest } from "./random-request.ts";
import type { SoakAnswer } from "./send-request.ts";
import type { Samples } from "./metrics-text.ts";

const FAULTS_MAX = 20;

/** What clients saw, to be held against what the engine says of itself. */
export class Ledger {
  readonly #counts = new Map<SoakAnswer["kind"], number>();
  readonly #faults: string[] = [];
  #outputTokens = 0;
  #choices = 0;
  /** What the engine may have drawn for clients who did not wait for it. */
  #unreadTokensMax = 0;

  note(request: SoakRequest, answer: SoakAnswer): void {
    this.#counts.set(answer.kind, this.count(answer.kind) + 1);
    this.#outputTokens += answer.outputTokens;
    this.#choices += answer.choices;
    if (answer.kind !== "served") this.#unreadTokensMax += request.outputTokensMax;
    if (answer.fault !== undefined) this.fault(answer.fault);
  }

  fault(fault: string): void {
    if (this.#faults.length < FAULTS_MAX) this.#faults.push(fault);
  }

  count(kind: SoakAnswer["kind"]): number {
    return this.#counts.get(kind) ?? 0;
  }

  get faults(): readonly string[] {
    return this.#faults;
  }

  /** What an idle engine's numbers and ours disagree in; each as a sentence. */
  disagreements(sample: Samples): readonly string[] {
    const generated = sample("engine_generation_tokens_total");
    const finished =
      sample("engine_request_success_total", 'finished_reason="stop"') +
      sample("engine_request_success_total", 'finished_reason="length"');
    const checks: readonly (readonly [boolean, string])[] = [
      [sample("engine_num_requests_running") === 0, "requests run though none is open"],
      [sample("engine_num_requests_waiting") === 0, "requests wait though none is open"],
      [sample("engine_kv_cache_usage_perc") === 0, "blocks are held though no request is open"],
      [generated >= this.#outputTokens, `${this.#outputTokens} tokens read, ${generated} drawn`],
      [
        generated <= this.#outputTokens + this.#unreadTokensMax,
        `${generated} tokens drawn, at most ${this.#outputTokens + this.#unreadTokensMax} asked for`,
      ],
      [finished >= this.#choices, `${this.#choices} choices read, ${finished} finished`],
      [
        sample("engine_prefix_cache_hits_total") <= sample("engine_prefix_cache_queries_total"),
        "more prompt tokens were found cached than were looked up",
      ],
      [
        sample("engine_request_errors_total", '"internal_error"') === 0,
        "the engine calls an error its own fault",
      ],
      [
        sample("engine_time_to_first_token_seconds_count") ===
          sample("engine_request_prefill_time_seconds_count"),
        "first tokens and prefills are not as many",
      ],
    ];
    return checks.filter(([isRight]) => !isRight).map(([, fault]) => fault);
  }

  /** One line of what happened so far. */
  summary(): string {
    const counts = [...this.#counts].toSorted(([a], [b]) => a.localeCompare(b));
    return counts.map(([kind, count]) => `${count} ${kind}`).join(", ");
  }
}
