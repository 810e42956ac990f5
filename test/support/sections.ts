/** What a WebAssembly module consists of, as far as the tests ask (core specification, 5.5). */
export interface Sections {
  /** Numbers of the sections, in order; custom ones (0) left out. */
  ids: number[];
  imports: {
    module: string;
    name: string;
    kind: 'function' | 'table' | 'memory' | 'global';
    memory?: Limits;
  }[];
  globals: { mutable: boolean }[];
  exports: { name: string; kind: number }[];
}

export interface Limits {
  min: number;
  max: number | undefined;
  shared: boolean;
}

export const SECTION = { import: 2, memory: 5, global: 6, export: 7, start: 8, data: 11, dataCount: 12 };

const KINDS = ['function', 'table', 'memory', 'global'] as const;

class Reader {
  at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  u8(): number {
    if (this.done) throw new Error(`the module ends at byte ${this.at}`);
    return this.bytes[this.at++];
  }

  /** LEB128, unsigned. */
  u32(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (byte < 128) return value;
    }
  }

  take(length: number): Uint8Array {
    const part = this.bytes.subarray(this.at, this.at + length);
    if (part.length !== length) throw new Error(`the module ends at byte ${this.at}`);
    this.at += length;
    return part;
  }

  name(): string {
    return new TextDecoder().decode(this.take(this.u32()));
  }

  list<T>(item: () => T): T[] {
    return Array.from({ length: this.u32() }, item);
  }

  limits(): Limits {
    const flags = this.u8();
    return { min: this.u32(), max: flags & 1 ? this.u32() : undefined, shared: (flags & 2) !== 0 };
  }

  /** A constant expression of one instruction: all that a global of ours could need. */
  constant(): void {
    const opcode = this.u8();
    if (opcode === 0x43) this.take(4);
    else if (opcode === 0x44) this.take(8);
    else if (opcode === 0x41 || opcode === 0x42 || opcode === 0x23) this.u32();
    else throw new Error(`unknown instruction ${opcode} in a constant expression`);
    if (this.u8() !== 0x0b) throw new Error('a constant expression of several instructions');
  }
}

export function sections(module: Uint8Array): Sections {
  const reader = new Reader(module);
  if (reader.take(8).join() !== '0,97,115,109,1,0,0,0') throw new Error('this is no WebAssembly module');
  const found: Sections = { ids: [], imports: [], globals: [], exports: [] };
  while (!reader.done) {
    const id = reader.u8();
    const body = new Reader(reader.take(reader.u32()));
    if (id === 0) continue;
    found.ids.push(id);
    if (id === SECTION.import)
      found.imports = body.list(() => {
        const [module, name, code] = [body.name(), body.name(), body.u8()];
        const kind = KINDS[code];
        if (kind === 'memory') return { module, name, kind, memory: body.limits() };
        if (kind === 'function') body.u32();
        else if (kind === 'global') body.take(2);
        else if (kind === 'table') {
          body.u8();
          body.limits();
        } else throw new Error(`unknown kind of import ${code}`);
        return { module, name, kind };
      });
    else if (id === SECTION.global)
      found.globals = body.list(() => {
        body.u8();
        const mutable = body.u8() === 1;
        body.constant();
        return { mutable };
      });
    else if (id === SECTION.export)
      found.exports = body.list(() => {
        const [name, kind] = [body.name(), body.u8()];
        body.u32();
        return { name, kind };
      });
  }
  return found;
}
