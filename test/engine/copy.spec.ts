import { expect } from 'chai';
import fc from 'fast-check';
import { type Host, loadEngine } from '../../src/index.js';

describe('copy within the memory', () => {
  for (const engine of ['wasm', 'typescript'] as const)
    for (const shared of [false, true])
      it(`as copyWithin, ranges that overlap included (${engine}, shared: ${shared})`, async () => {
        const host: Host = await loadEngine({ engine, size: 65_536, shared });
        const base = host.alloc(4096);
        const u8 = new Uint8Array(host.buffer);
        const range = fc.tuple(fc.nat(1000), fc.nat(1000), fc.nat(1000));
        fc.assert(
          fc.property(range, ([to, from, length]) => {
            for (let i = 0; i < 2000; i++) u8[base + i] = i * 7;
            const expected = u8.slice(base, base + 2000).copyWithin(to, from, from + length);
            host.copy(base + to, base + from, length);
            expect(u8.slice(base, base + 2000)).to.deep.equal(expected);
          }),
          { verbose: 1 },
        );
        host.free(base);
      });

  it('WebAssembly: outside the memory nothing is copied', async () => {
    const host = await loadEngine({ engine: 'wasm', size: 65_536 });
    const before = new Uint8Array(host.buffer).slice();
    expect(() => host.copy(65_530, 0, 100)).to.throw(WebAssembly.RuntimeError);
    expect(() => host.copy(0, 2 ** 31, 100)).to.throw(WebAssembly.RuntimeError);
    expect(new Uint8Array(host.buffer)).to.deep.equal(before);
  });
});
