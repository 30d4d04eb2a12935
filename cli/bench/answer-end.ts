/** How the asking for one answer ended. */
export type AnswerEnd =
  | {
      readonly kind: "answered";
      /** As the server counts them; absent where it does not say. */
      readonly inputTokens: number | undefined;
      readonly outputTokens: number | undefined;
    }
  /** The server did not take it: 429, 503, or the same inside a stream that had not begun. */
  | { readonly kind: "refused"; readonly status: number; readonly code: string | undefined }
  | {
      readonly kind: "failed";
      /** With the status and the server's code where it answered with an error: `400 invalid_value`. */
      readonly reason: string;
      /** Absent: no head of an answer came. */
      readonly status?: number;
      /** What the server says of it, for people. */
      readonly message?: string;
    }
  /** The load was stopped meanwhile. */
  | { readonly kind: "cancelled" };
