import { expect } from 'chai';
import { DESC_BYTES, DESC_F_INDIRECT, DESC_F_NEXT, DESC_F_WRITE } from '../assembly/abi/layout.js';
import { Regions } from '../src/engine/regions.js';
import { WindowCache } from '../src/engine/typescript/mm/window-cache.js';
import { type DeviceQueue, Feature, type Region, VringError } from '../src/index.js';
import { Translation } from '../src/queue/inspect/translation.js';
import { ENGINES, loader } from './support/engines.js';

const SIZE = 16;
const STRATEGIES = ['lazy', 'eager'] as const;
/** Guest pages, far from each other and above 2^32. Their local places are in no order. */
const PAGES = 12;
const PAGE = 256;
const LOCAL = 0x4000;
const guestPage = (page: number): bigint => BigInt(page) * 0x1_0000_1000n + 0x7000_0000n;
const localPage = (page: number, turn = 0): number => LOCAL + ((page * 5 + turn) % PAGES) * PAGE;
const pages = (turn = 0): Region[] =>
  Array.from({ length: PAGES }, (_, page) => ({
    guest: guestPage(page),
    length: PAGE,
    local: localPage(page, turn),
  }));

/** Segments [page, offset in it], the first ones readable. */
type Part = readonly [page: number, offset: number];
const LENGTH = 16;
/** More regions than windows, back and forth. */
const PARTS: readonly Part[] = [1, 9, 1, 4, 9, 7, 2, 1, 11, 4, 9, 7].map((page, i) => [page, i * 16]);
const OUT = 5;

describe('translation', () => {
  for (const engine of ENGINES)
    for (const ring of ['split', 'packed'] as const)
      describe(`${engine} engine, ${ring} ring`, () => {
        /** A ring whose chains are written as a peer would, with a table in page 3. */
        async function stage(translation: (typeof STRATEGIES)[number] | undefined) {
          const host = await loader(engine)({
            memory: new WebAssembly.Memory({ initial: 8 }),
            base: 0x10000,
            size: 0x70000,
          });
          const features = [Feature.VERSION_1, Feature.INDIRECT_DESC];
          if (ring === 'packed') features.push(Feature.RING_PACKED);
          const device = host.deviceQueue({
            ring,
            size: SIZE,
            features,
            areas: { descriptor: 0x1000, driver: 0x2000, device: 0x3000 },
            regions: [{ guest: 0, length: LOCAL, local: 0 }, ...pages()],
            ...(translation && { translation }),
          });
          const view = new DataView(host.buffer);
          const put = (at: number, address: bigint, length: number, flags: number, next: number) => {
            view.setBigUint64(at, address, true);
            view.setUint32(at + 8, length, true);
            view.setUint16(at + 12, ring === 'split' ? flags : 0, true);
            view.setUint16(at + 14, ring === 'split' ? next : flags, true);
          };
          const owned = (flags: number) => (ring === 'split' ? flags : flags | 0x80);
          const chain = (at: number, parts: readonly Part[], mark: (flags: number) => number) => {
            for (const [i, [page, offset]] of parts.entries()) {
              const next = i + 1 < parts.length ? DESC_F_NEXT : 0;
              const write = i < OUT ? 0 : DESC_F_WRITE;
              put(at + i * DESC_BYTES, guestPage(page) + BigInt(offset), LENGTH, mark(next | write), i + 1);
            }
          };
          return {
            host,
            device,
            direct(parts: readonly Part[]) {
              chain(0x1000, parts, owned);
              view.setUint16(0x2002, 1, true);
            },
            /** @param turn what was given to `pages` */
            indirect(parts: readonly Part[], turn = 0) {
              chain(localPage(3, turn), parts, (flags) => (ring === 'split' ? flags : flags & DESC_F_WRITE));
              put(0x1000, guestPage(3), parts.length * DESC_BYTES, owned(DESC_F_INDIRECT), 0);
              view.setUint16(0x2002, 1, true);
            },
          };
        }

        const places = (parts: readonly Part[], turn = 0) =>
          parts.map(([page, offset]) => ({ address: localPage(page, turn) + offset, length: LENGTH }));
        const popped = (device: DeviceQueue) => {
          const { out, in: in_ } = device.pop() ?? { out: [], in: [] };
          return [...out, ...in_];
        };

        for (const strategy of STRATEGIES)
          for (const way of ['direct', 'indirect'] as const) {
            it(`${strategy}: a chain that goes back and forth between more regions than there are windows, ${way}`, async () => {
              const { device, ...peer } = await stage(strategy);
              peer[way](PARTS);
              const bytes = { out: OUT * LENGTH, in: (PARTS.length - OUT) * LENGTH };
              expect(device.availableBytes(1e9, 1e9)).to.deep.equal(bytes);
              const [pending] = device.inspect().pending?.buffers ?? [];
              expect(pending.problem).to.equal(undefined);
              expect(pending.segments?.map(({ address }) => BigInt(address))).to.deep.equal(
                PARTS.map(([page, offset]) => guestPage(page) + BigInt(offset)),
              );
              expect(popped(device)).to.deep.equal(places(PARTS));
            });

            it(`${strategy}: what was found before other regions were set is not believed, ${way}`, async () => {
              const { device, ...peer } = await stage(strategy);
              peer[way](PARTS);
              device.availableBytes(1e9, 1e9);
              const element = device.pop();
              device.unpop(element as NonNullable<typeof element>);
              device.setRegions([{ guest: 0, length: LOCAL, local: 0 }, ...pages(1)]);
              peer[way](PARTS, 1);
              expect(popped(device)).to.deep.equal(places(PARTS, 1));
            });

            it(`${strategy}: a segment in no region is refused though all windows are taken, ${way}`, async () => {
              const { device, ...peer } = await stage(strategy);
              peer[way]([...PARTS.slice(0, 8), [2, PAGE]]);
              expect(() => device.pop()).to.throw(VringError, `0x${(guestPage(2) + 256n).toString(16)}`);
              expect(device.fault?.code).to.equal('EFAULT');
            });
          }

        it('a strategy that does not exist is refused, with what there is; nothing is kept', async () => {
          const { host } = await stage(undefined);
          const { used } = host;
          const options = { ring, size: SIZE, areas: { descriptor: 0x1000, driver: 0x2000, device: 0x3000 } };
          for (const translation of ['never', null, 1, {}])
            expect(() => host.deviceQueue({ ...options, translation: translation as 'lazy' }))
              .to.throw(VringError, "translation must be 'lazy' or 'eager', got")
              .with.property('code', 'EINVAL');
          expect(host.used).to.equal(used);
        });

        it('all memory comes back', async () => {
          for (const strategy of STRATEGIES) {
            const { host, device } = await stage(strategy);
            device.resize(32, { descriptor: 0x1000, driver: 0x2000, device: 0x3000 });
            device.release();
            expect(host.used).to.equal(0);
          }
        });
      });

  it('windows of the TypeScript engine: the oldest makes room; begun anew, nothing is found', () => {
    const table = new Uint32Array(6 * 5);
    // First and last address, low half first; then the local address.
    for (let r = 0; r < 6; r++) table.set([r * 16, 1, r * 16 + 7, 1, r], r * 5);
    for (const empty of ['begin', 'clear'] as const) {
      const cache = new WindowCache();
      const found = () => [0, 1, 2, 3, 4, 5].map((r) => cache.find(Uint32Array.of(r * 16 + 7, 1)));
      for (const r of [0, 1, 2, 3, 4]) cache.add(table, r * 5);
      expect(found()).to.deep.equal([-1, 5, 10, 15, 20, -1]);
      expect(cache.find(Uint32Array.of(24, 1)), 'behind the last byte').to.equal(-1);
      expect(cache.find(Uint32Array.of(16, 0)), 'another upper half').to.equal(-1);
      cache.add(table, 25);
      expect(found()).to.deep.equal([-1, -1, 10, 15, 20, 25]);
      cache[empty]();
      expect(found()).to.deep.equal([-1, -1, -1, -1, -1, -1]);
      for (const r of [5, 4, 3, 2, 1]) cache.add(table, r * 5);
      expect(found()).to.deep.equal([-1, 5, 10, 15, 20, -1]);
    }
  });

  it('windows of an inspection: the same, and what is in no region is not found', () => {
    const regions = new Regions(pages(), LOCAL + PAGES * PAGE);
    for (const strategy of STRATEGIES) {
      const translation = new Translation(regions, strategy);
      for (let turn = 0; turn < 2; turn++) {
        translation.begin();
        for (const page of [5, 1, 5, 7, 8, 9, 5, 1, 11])
          expect(translation.find(guestPage(page) + 255n)?.local).to.equal(localPage(page));
        expect(translation.find(guestPage(5) + 256n)).to.equal(undefined);
        expect(translation.find(guestPage(5) - 1n)).to.equal(undefined);
      }
    }
  });
});
