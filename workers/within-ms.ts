/** Rejects when a promise takes longer than `limitMs`; the promise itself runs on. */
export function withinMs<T>(promise: Promise<T>, limitMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const overdue = (): void => reject(new Error(`No answer within ${limitMs} ms`));
    const timer = setTimeout(overdue, limitMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
