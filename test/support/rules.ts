/** What the model of a queue asks of a ring format. */

/** What a buffer takes of the ring. */
export interface Chain {
  /** Head descriptor (split) or buffer id (packed). */
  id: number;
  /** How far the indices move over it: 1 (split), or its slots (packed). */
  units: number;
  /** Its descriptors, the head first (split); its slots are wherever it was added (packed). */
  descriptors: number[];
}

/** What one side asks the other to tell it of. Indices are free-running. */
export interface Events {
  disable(seen: number): void;
  /** Asks for the event at index `at`. */
  enable(at: number): void;
  /** A burst took everything up to `seen`. */
  took(seen: number): void;
  /** Whether the other side has to say that `count` were added and the index is `index` now. */
  wants(index: number, count: number): boolean;
  /** Whether that is no question where nothing was added. */
  readonly silent: boolean;
}

export interface Rules {
  events(): Events;
  /** Free descriptors. */
  readonly numFree: number;
  /** A chain of `descriptors` descriptors, if they are free. */
  take(descriptors: number): Chain | undefined;
  giveBack(chain: Chain): void;
  /** The chain was added at `index`. */
  added(chain: Chain, index: number): void;
  /** A used entry was written at `index`. */
  used(index: number): void;
  /** An index as the driver hands it out. */
  position(index: number): number;
  /** What `poll` says; undefined if it refuses the argument. `midBatch`: not all of a batch was handed out. */
  poll(opaque: number, usedIndex: number, midBatch: boolean): boolean | undefined;
  /** Three quarters of what is outstanding. */
  delay(inFlight: number): number;
  /** Whether so many used buffers are too many for delayed enabling to succeed. */
  late(used: number, delay: number): boolean;
}

export interface RulesOptions {
  size: number;
  eventIdx: boolean;
  inOrder: boolean;
}
