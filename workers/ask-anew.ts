/**
 * Asks an object, and once more where it was reset meanwhile: its next life knows nothing of the question.
 * `ask` goes to the object by its name, since a stub ends with the life that it was of, and may be repeated.
 */
export async function askAnew<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  try {
    return await ask();
  } catch (error) {
    if (!wasReset(error)) throw error;
    return ask();
  }
}

/** As the runtime marks it; an object with too much to do is not asked again. */
function wasReset(error: unknown): boolean {
  return error instanceof Error && "durableObjectReset" in error && !("overloaded" in error);
}
