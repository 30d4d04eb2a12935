import * as z from "zod";
import type { ProbeAnswer } from "./engine-adapter.ts";
import { jsonOf } from "./read-answer.ts";

/** Of more models nobody keeps the names: then it is unknown which ones there are. */
const NAMES_MAX = 1_024;
/** No longer name can stand in a configuration. */
const NAME_LENGTH_MAX = 256;

const Listed = z.object({ data: z.array(z.unknown()) });
const Card = z.object({
  id: z.string().min(1),
  /** Of an adapter the model that it is for. */
  parent: z.string().min(1).optional().catch(undefined),
});
type Card = z.infer<typeof Card>;
const WithStatus = z.object({ status: z.object({}) });

/** The names of models, adapters among them, that a server lists as the OpenAI API does (`GET /v1/models`). */
export function listedNames(answer: ProbeAnswer): readonly string[] | undefined {
  return boundedNames(cardsOf(answer)?.map(({ id }) => id));
}

/** The same of one that lists them with their status, as routers do; one without is not held to its list. */
export function routedNames(answer: ProbeAnswer): readonly string[] | undefined {
  const listed = jsonOf(answer, Listed)?.data;
  return listed?.some((model) => WithStatus.safeParse(model).success) === true
    ? listedNames(answer)
    : undefined;
}

/** None, or too many, is as good as nothing said: a list that is not whole must not keep requests away. */
export function boundedNames(names: readonly string[] | undefined): readonly string[] | undefined {
  if (names === undefined || names.length === 0 || names.length > NAMES_MAX) return undefined;
  return names.filter(({ length }) => length <= NAME_LENGTH_MAX);
}

/** What a server lists as the OpenAI API does; what is no model is left out. */
export function cardsOf(answer: ProbeAnswer): readonly Card[] | undefined {
  return jsonOf(answer, Listed)?.data.flatMap((model) => {
    const card = Card.safeParse(model);
    return card.success ? [card.data] : [];
  });
}
