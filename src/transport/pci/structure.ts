import { show, VringError } from '../../errors.js';
import { type AccessWidth, type PciFunction, readPlace, writePlace } from './function.js';

/** A range of a BAR that a capability names: one of the structures of the device's registers. */
export class Structure {
  constructor(
    private readonly pci: PciFunction,
    /** For error messages. */
    readonly name: string,
    private readonly bar: number,
    private readonly offset: number,
    readonly length: number,
  ) {}

  /** @param at bytes from the start of the structure @throws VringError EINVAL outside it, EIO */
  async read(at: number, width: AccessWidth): Promise<number> {
    return readPlace(this.pci, this.place(at, width));
  }

  /** @param at bytes from the start of the structure @throws VringError EINVAL outside it, EIO */
  async write(at: number, width: AccessWidth, value: number): Promise<void> {
    return writePlace(this.pci, this.place(at, width), value);
  }

  private place(at: number, width: AccessWidth) {
    if (width !== 1 && width !== 2 && width !== 4)
      throw new VringError('EINVAL', `the width of an access must be 1, 2 or 4, got ${show(width)}`);
    if (!Number.isInteger(at) || at < 0 || at + width > this.length || at % width !== 0)
      throw new VringError(
        'EINVAL',
        `${width} bytes at ${show(at)} of the ${this.name}: pass a multiple of the width inside its ${this.length} bytes`,
      );
    return { bar: this.bar, offset: this.offset + at, width };
  }
}
