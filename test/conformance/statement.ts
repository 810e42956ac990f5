/** Strength of a statement, as the specification writes it (RFC 2119). */
export type Level = 'MUST' | 'MUST NOT' | 'SHOULD' | 'SHOULD NOT' | 'RECOMMENDED';

/** One normative statement of virtio 1.4, in words of our own. */
export interface Statement {
  /** `<chapter>-<driver|device>-<what>`: a test that shows it has `[id]` in its title. */
  readonly id: string;
  readonly binds: 'driver' | 'device';
  readonly level: Level;
  readonly text: string;
  /** Why vring has nothing to show for it. */
  readonly notApplicable?: string;
}

/** The statements of one numbered section of the specification. */
export interface Section {
  readonly number: string;
  readonly title: string;
  readonly statements: readonly Statement[];
}

/** The statements about one subject; one file each. */
export interface Chapter {
  readonly title: string;
  readonly sections: readonly Section[];
}
