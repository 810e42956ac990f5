import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { PLAIN, SHARED } from '../src/engine/wasm/generated.js';
import { SECTION, sections } from './support/sections.js';

const built = (name: string) => readFileSync(new URL(`../build/${name}`, import.meta.url));

describe('the WebAssembly module', () => {
  for (const [name, inlined, shared] of [
    ['vring.wasm', PLAIN, false],
    ['vring.shared.wasm', SHARED, true],
  ] as const)
    describe(name, () => {
      const bytes = built(name);
      const { ids, imports, globals, exports } = sections(bytes);

      it('keeps no state of its own: no memory, no data, no start function, no mutable global', () => {
        expect(ids).to.not.include(SECTION.memory);
        expect(ids).to.not.include(SECTION.data);
        expect(ids).to.not.include(SECTION.dataCount);
        expect(ids).to.not.include(SECTION.start);
        expect(globals.filter(({ mutable }) => mutable)).to.deep.equal([]);
      });

      it('imports the memory and nothing else', () => {
        expect(imports).to.have.length(1);
        const [{ memory, ...rest }] = imports;
        expect(rest).to.deep.equal({ module: 'env', name: 'memory', kind: 'memory' });
        // A declared maximum would exclude memories without one, or with a larger one.
        if (shared) expect(memory).to.deep.include({ max: 65536, shared: true });
        else expect(memory).to.deep.include({ max: undefined, shared: false });
        expect(memory?.min).to.be.at.most(1);
      });

      it('exports functions and nothing of its own state', () => {
        const names = exports.filter(({ kind }) => kind !== 0).map((e) => e.name);
        // The memory that was imported may be shown.
        expect(names.filter((name) => name !== 'memory')).to.deep.equal([]);
        expect(exports.length).to.be.above(10);
      });

      it('is the one that the package inlines', () => {
        expect(Buffer.from(inlined, 'base64').equals(bytes)).to.equal(true);
      });

      it('compiles', async () => {
        expect(await WebAssembly.compile(bytes)).to.be.instanceOf(WebAssembly.Module);
      });
    });

  it('is small', () => {
    // Two ring formats, and the caches and thresholds of indirect tables, each with loops of its own.
    expect(built('vring.wasm').length).to.be.below(40 * 1024);
  });

  it('has the same exports in both builds', () => {
    const names = (name: string) => sections(built(name)).exports.map((e) => e.name);
    expect(names('vring.shared.wasm')).to.deep.equal(names('vring.wasm'));
  });
});

describe('the reader of modules', () => {
  const section = (id: number, ...body: number[]) => [id, body.length, ...body];
  const module = (...parts: number[][]) => Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, ...parts.flat()]);

  it('finds what must not be there', async () => {
    const bytes = module(
      section(1, 1, 0x60, 0, 0),
      section(2, 1, 1, 109, 1, 102, 0, 0), // import function m.f
      section(3, 1, 0),
      section(5, 1, 1, 1, 0x80, 0x80, 4), // memory of 1 to 65536 pages
      section(6, 2, 0x7f, 0, 0x41, 0x80, 1, 0x0b, 0x7e, 1, 0x42, 7, 0x0b),
      section(7, 1, 1, 103, 3, 1), // export global g
      section(8, 1),
      section(10, 1, 2, 0, 0x0b),
      section(11, 1, 0, 0x41, 0, 0x0b, 1, 42),
    );
    // Not a fancy of the test: it is a module.
    await WebAssembly.compile(bytes);
    expect(sections(bytes)).to.deep.equal({
      ids: [1, 2, 3, 5, 6, 7, 8, 10, 11],
      imports: [{ module: 'm', name: 'f', kind: 'function' }],
      globals: [{ mutable: false }, { mutable: true }],
      exports: [{ name: 'g', kind: 3 }],
    });
  });

  it('reads limits', () => {
    const imported = (...limits: number[]) =>
      sections(module(section(2, 1, 1, 101, 1, 109, 2, ...limits))).imports[0].memory;
    expect(imported(0, 5)).to.deep.equal({ min: 5, max: undefined, shared: false });
    expect(imported(1, 0, 0x80, 0x80, 4)).to.deep.equal({ min: 0, max: 65536, shared: false });
    expect(imported(3, 1, 2)).to.deep.equal({ min: 1, max: 2, shared: true });
  });
});
