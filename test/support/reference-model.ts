import type { PlainCheckpoint, PlainTensor } from "./random-checkpoint.ts";

/**
 * Logits after each token of a text, for a checkpoint's files as they are: in f64, without any cache,
 * by the definitions of the papers. It shares no code with the engine, configuration included.
 *
 * Llama (arXiv:2302.13971), grouped queries (2305.13245), rotary positions (2104.09864), Qwen3's norms of
 * queries and keys (2505.09388), Gemma (2403.08295), YaRN (2309.00071), and Llama 3.1's positions as Meta
 * published them with its weights.
 */
export function referenceLogits(
  checkpoint: PlainCheckpoint,
  tokens: readonly number[],
): Float64Array[] {
  const model = new Reference(checkpoint);
  const tied = checkpoint.config["tie_word_embeddings"] === true;
  const head = model.tensor(tied ? "model.embed_tokens.weight" : "lm_head.weight");
  return model.hidden(tokens).map((row) => times(head, row));
}

type Row = Float64Array;

class Reference {
  readonly #config: Readonly<Record<string, unknown>>;
  readonly #tensors: ReadonlyMap<string, PlainTensor>;
  readonly #isGemma: boolean;

  constructor({ config, tensors }: PlainCheckpoint) {
    this.#config = config;
    this.#tensors = tensors;
    this.#isGemma = config["model_type"] === "gemma";
  }

  tensor(name: string): PlainTensor {
    const tensor = this.#tensors.get(name);
    if (tensor === undefined) throw new Error(`the checkpoint has no ${name}`);
    return tensor;
  }

  hidden(tokens: readonly number[]): Row[] {
    const size = this.#number("hidden_size");
    const table = this.tensor("model.embed_tokens.weight").values;
    const scale = this.#isGemma ? Math.sqrt(size) : 1;
    let rows: Row[] = tokens.map((token) =>
      Float64Array.from(table.subarray(token * size, (token + 1) * size), (value) => value * scale),
    );
    for (let index = 0; index < this.#number("num_hidden_layers"); index++) {
      const layer = `model.layers.${index}`;
      const attended = this.#attend(
        layer,
        rows.map((row) => this.#norm(row, `${layer}.input_layernorm`)),
      );
      rows = rows.map((row, position) => plus(row, attended[position]));
      rows = rows.map((row) =>
        plus(row, this.#mlp(layer, this.#norm(row, `${layer}.post_attention_layernorm`))),
      );
    }
    return rows.map((row) => this.#norm(row, "model.norm"));
  }

  #attend(layer: string, rows: readonly Row[]): Row[] {
    const heads = this.#number("num_attention_heads");
    const kvHeads = this.#number("num_key_value_heads");
    const size = this.#number("head_dim");
    const projected = rows.map((row, position) => {
      const [query, key, value] = this.#queryKeyValue(layer, row, heads * size, kvHeads * size);
      return {
        queries: splitHeads(query, size).map((h) =>
          this.#turn(this.#headNorm(layer, "q", h), position),
        ),
        keys: splitHeads(key, size).map((h) => this.#turn(this.#headNorm(layer, "k", h), position)),
        values: splitHeads(value, size),
      };
    });
    return projected.map(({ queries }, position) => {
      const outputs = queries.map((query, head) => {
        const kvHead = Math.floor((head * kvHeads) / heads);
        const past = projected.slice(0, position + 1);
        const scores = past.map(({ keys }) => dot(query, keys[kvHead] ?? query) / Math.sqrt(size));
        const highest = Math.max(...scores);
        const weights = scores.map((score) => Math.exp(score - highest));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        const output = new Float64Array(size);
        past.forEach(({ values }, index) => {
          const weight = (weights[index] ?? 0) / total;
          values[kvHead]?.forEach((value, i) => (output[i] = (output[i] ?? 0) + weight * value));
        });
        return output;
      });
      return this.#project(
        `${layer}.self_attn.o_proj`,
        Float64Array.from(outputs.flatMap((o) => [...o])),
      );
    });
  }

  #queryKeyValue(layer: string, row: Row, queries: number, keys: number): [Row, Row, Row] {
    if (this.#config["model_type"] === "phi3") {
      const all = this.#project(`${layer}.self_attn.qkv_proj`, row);
      return [all.slice(0, queries), all.slice(queries, queries + keys), all.slice(queries + keys)];
    }
    const of = (name: string) => this.#project(`${layer}.self_attn.${name}_proj`, row);
    return [of("q"), of("k"), of("v")];
  }

  #mlp(layer: string, row: Row): Row {
    const size = this.#number("intermediate_size");
    let gate: Row;
    let up: Row;
    if (this.#config["model_type"] === "phi3") {
      const both = this.#project(`${layer}.mlp.gate_up_proj`, row);
      gate = both.slice(0, size);
      up = both.slice(size);
    } else {
      gate = this.#project(`${layer}.mlp.gate_proj`, row);
      up = this.#project(`${layer}.mlp.up_proj`, row);
    }
    const activated = gate.map((x, i) => (this.#isGemma ? gelu(x) : silu(x)) * (up[i] ?? 0));
    return this.#project(`${layer}.mlp.down_proj`, activated);
  }

  /** W x, plus b where the file has one. */
  #project(name: string, row: Row): Row {
    const product = times(this.tensor(`${name}.weight`), row);
    const bias = this.#tensors.get(`${name}.bias`)?.values;
    return bias === undefined ? product : product.map((value, i) => value + (bias[i] ?? 0));
  }

  #headNorm(layer: string, which: "q" | "k", head: Row): Row {
    const name = `${layer}.self_attn.${which}_norm`;
    return this.#tensors.has(`${name}.weight`) ? this.#norm(head, name) : head;
  }

  #norm(row: Row, name: string): Row {
    const { values } = this.tensor(`${name}.weight`);
    const epsilon = this.#number("rms_norm_eps");
    const length = Math.sqrt(dot(row, row) / row.length + epsilon);
    const one = this.#isGemma ? 1 : 0;
    return row.map((value, i) => (value / length) * (one + (values[i] ?? 0)));
  }

  /** Rotary positions: a head's dimensions i and i + half are one point of a plane. */
  #turn(head: Row, position: number): Row {
    const half = head.length / 2;
    const turned = new Float64Array(head.length);
    for (let pair = 0; pair < half; pair++) {
      const { frequency, length } = this.#wave(pair, head.length);
      const cosine = length * Math.cos(position * frequency);
      const sine = length * Math.sin(position * frequency);
      const [x = 0, y = 0] = [head[pair], head[pair + half]];
      turned[pair] = x * cosine - y * sine;
      turned[pair + half] = y * cosine + x * sine;
    }
    return turned;
  }

  #wave(pair: number, dimensions: number): { frequency: number; length: number } {
    const theta = this.#number("rope_theta");
    const plain = theta ** ((-2 * pair) / dimensions);
    const scaling = this.#config["rope_scaling"];
    if (typeof scaling !== "object" || scaling === null) return { frequency: plain, length: 1 };
    const of = (key: string) => {
      const value: unknown = Reflect.get(scaling, key);
      return typeof value === "number" ? value : undefined;
    };
    const factor = of("factor") ?? 1;
    const original =
      of("original_max_position_embeddings") ?? this.#number("max_position_embeddings");
    const kind: unknown = Reflect.get(scaling, "rope_type") ?? Reflect.get(scaling, "type");
    switch (kind) {
      case "linear":
        return { frequency: plain / factor, length: 1 };
      case "dynamic":
        // Up to the trained length, which no test exceeds, the base stays as it is.
        return { frequency: plain, length: 1 };
      case "llama3": {
        const waves = (original * plain) / (2 * Math.PI);
        const [low = 1, high = 4] = [of("low_freq_factor"), of("high_freq_factor")];
        const smooth = Math.min(Math.max((waves - low) / (high - low), 0), 1);
        return { frequency: (1 - smooth) * (plain / factor) + smooth * plain, length: 1 };
      }
      case "yarn": {
        // The number of dimensions is chosen where a given number of turns fits the original length.
        const at = (turns: number) =>
          (dimensions * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
        const low = Math.max(0, Math.floor(at(of("beta_fast") ?? 32)));
        const high = Math.min(dimensions - 1, Math.ceil(at(of("beta_slow") ?? 1)));
        const ramp = Math.min(Math.max((pair - low) / (high - low), 0), 1);
        const length = of("attention_factor") ?? 0.1 * Math.log(factor) + 1;
        return { frequency: (1 - ramp) * plain + ramp * (plain / factor), length };
      }
      default:
        throw new Error(`the reference does not know rope type ${String(kind)}`);
    }
  }

  #number(key: string): number {
    const value = this.#config[key];
    if (typeof value !== "number") throw new Error(`the test's config.json has no number ${key}`);
    return value;
  }
}

const silu = (x: number) => x / (1 + Math.exp(-x));
const gelu = (x: number) =>
  0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function splitHeads(row: Row, size: number): Row[] {
  return Array.from({ length: row.length / size }, (_, h) => row.slice(h * size, (h + 1) * size));
}

function times({ shape: [outputs = 0, inputs = 0], values }: PlainTensor, row: Row): Row {
  const product = new Float64Array(outputs);
  for (let output = 0; output < outputs; output++) {
    let sum = 0;
    for (let input = 0; input < inputs; input++) {
      sum += (values[output * inputs + input] ?? 0) * (row[input] ?? 0);
    }
    product[output] = sum;
  }
  return product;
}

const plus = (a: Row, b: Row | undefined): Row => a.map((value, i) => value + (b?.[i] ?? 0));

function dot(a: Row, b: Row): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}
