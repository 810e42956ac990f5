/** What is wrong at which byte of a file. */
export interface Damage {
  offset: number;
  /** "expected …, found …". */
  reason: string;
}

/** Thrown by the parsers; the frames before it are sound. */
export class DamageError extends Error {
  constructor(readonly damage: Damage) {
    super(damage.reason);
  }
}

export function damaged(offset: number, expected: string, found: string): never {
  throw new DamageError({ offset, reason: `expected ${expected}, found ${found}` });
}
