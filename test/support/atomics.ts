/** An access through `Atomics`, with the byte offset that it was at. */
export interface AtomicAccess<T> {
  kind: 'load' | 'store';
  at: number;
  /** What `look` saw right before a store. */
  saw?: T;
}

/** The atomic loads and stores that `action` makes, in order. */
export function atomics<T>(action: () => void, look: () => T): AtomicAccess<T>[] {
  const accesses: AtomicAccess<T>[] = [];
  const { load, store } = Atomics;
  const patched = Atomics as { load: unknown; store: unknown };
  patched.load = (array: Uint16Array, index: number) => {
    accesses.push({ kind: 'load', at: index * array.BYTES_PER_ELEMENT });
    return load(array, index);
  };
  patched.store = (array: Uint16Array, index: number, value: number) => {
    accesses.push({ kind: 'store', at: index * array.BYTES_PER_ELEMENT, saw: look() });
    return store(array, index, value);
  };
  try {
    action();
  } finally {
    Object.assign(patched, { load, store });
  }
  return accesses;
}
