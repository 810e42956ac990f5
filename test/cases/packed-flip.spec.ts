import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { type Completion, VringError } from '../../src/index.js';
import { forEachEngine } from '../support/engines.js';
import { AVAIL, INDIRECT, NEXT, USED, WRITE } from '../support/packed-ring.js';
import { PackedStage } from '../support/packed-stage.js';
import { DATA, GUEST, INDIRECT_DESC, TABLES } from '../support/stage.js';

const { address } = DATA;
const ROUNDS = 2000;
/** Of the peer; it flips each word a few hundred times in each. */
const FLIPS = 30;

interface Flip {
  address: number;
  values: [number, number];
}

/** A word made of two halves, as a signed number: what an Int32Array takes. */
const halves = (low: number, high: number): number => low | (high << 16);

describe('case 23: fields of a packed ring that change between two reads', () => {
  forEachEngine((load) => {
    let stage: PackedStage;
    let worker: Worker;
    let control: Int32Array;

    beforeEach(async () => {
      const pages = (GUEST + 0x200000) / 65536;
      const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
      stage = await PackedStage.create(load, { memory, features: INDIRECT_DESC });
    });

    /** Starts the peer, and returns when it is at work. */
    async function flip(...flips: Flip[]): Promise<void> {
      const at = stage.host.alloc(8);
      const { memory } = stage;
      control = new Int32Array(memory.buffer, at, 2);
      control.fill(0);
      worker = new Worker(new URL('../support/flipper.mjs', import.meta.url), {
        workerData: { memory, flips, control: at },
      });
      await new Promise<void>((resolve, reject) => {
        worker.once('error', reject);
        const look = () => (Atomics.load(control, 1) > 0 ? resolve() : setTimeout(look, 1));
        look();
      });
    }

    afterEach(async () => {
      Atomics.store(control, 0, 1);
      await worker.terminate();
      stage.check();
    });

    /** Calls `act` until it was often enough and the peer has flipped often enough in the meantime. */
    function repeat(act: () => void): void {
      const from = Atomics.load(control, 1);
      const flips = () => Atomics.load(control, 1) - from;
      // On a single processor the peer has to wait for its turn.
      for (let i = 0; i < ROUNDS || (flips() < FLIPS && i < 100 * ROUNDS); i++) act();
      expect(flips()).to.be.at.least(FLIPS);
    }

    /**
     * Pops the chain at slot 0 again and again while it changes. Whatever comes must be one of the chains
     * that the values allow, none, or a fault.
     */
    function popAll(allowed: unknown[]): void {
      const device = stage.device();
      const texts = new Set([undefined, ...allowed].map((value) => JSON.stringify(value)));
      let sound = 0;
      repeat(() => {
        try {
          const element = device.pop();
          const text = JSON.stringify(element);
          if (!texts.has(text)) throw new Error(`${text} is none of the chains that there were`);
          if (element) {
            device.unpop(element);
            sound++;
          }
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
          device.reset();
        }
      });
      expect(sound).to.be.above(0);
    }

    const descriptor = (slot: number) => stage.areas.descriptor + 16 * slot;
    const piece = (length: number, at = address) => ({ address: at, length });

    it('the length', async () => {
      stage.ring.offer([{ addr: address, len: 16, write: true }], 3);
      await flip({ address: descriptor(0) + 8, values: [16, 4000] });
      const device = stage.device();
      repeat(() => {
        const length = device.pop()?.in[0].length as number;
        expect(length === 16 || length === 4000).to.equal(true);
        // What was handed out is what may be written: not the other value.
        try {
          device.fill({ id: 3 }, length + 1, 0);
          throw new Error(`${length + 1} of ${length} bytes were accepted`);
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
        }
        device.unpop({ id: 3 });
      });
    });

    it('the address, a good one and two bad ones', async () => {
      stage.ring.offer([{ addr: address, len: 16 }], 3);
      await flip(
        { address: descriptor(0), values: [address, DATA.address + DATA.length - 1] },
        { address: descriptor(0) + 4, values: [0, 1] },
      );
      popAll([{ id: 3, out: [piece(16)], in: [] }]);
    });

    it('id and flags of a chain of one', async () => {
      stage.ring.offer([{ addr: address, len: 16 }], 3);
      await flip({
        address: descriptor(0) + 12,
        values: [halves(3, AVAIL), halves(0xffff, AVAIL | WRITE)],
      });
      // Two loads, the flags first: either of the ids, and only one that is sound comes out.
      popAll([
        { id: 3, out: [piece(16)], in: [] },
        { id: 3, out: [], in: [piece(16)] },
      ]);
    });

    it('available, or not yet', async () => {
      stage.ring.offer(
        [
          { addr: address, len: 16 },
          { addr: address + 100, len: 7 },
        ],
        3,
      );
      await flip({ address: descriptor(1) + 12, values: [halves(3, AVAIL), halves(3, AVAIL | USED)] });
      popAll([{ id: 3, out: [piece(16), piece(7, address + 100)], in: [] }]);
    });

    it('a chain that goes on, or ends', async () => {
      stage.ring.offer(
        [
          { addr: address, len: 16 },
          { addr: address + 100, len: 7, write: true },
        ],
        3,
      );
      await flip({ address: descriptor(0) + 12, values: [halves(3, AVAIL | NEXT), halves(3, AVAIL)] });
      popAll([
        { id: 3, out: [piece(16)], in: [piece(7, address + 100)] },
        { id: 3, out: [piece(16)], in: [] },
      ]);
    });

    it('a chain that ends, or goes round for ever', async () => {
      const { ring } = stage;
      ring.offer(new Array(8).fill({ addr: address, len: 1, flags: NEXT }), 3);
      await flip({ address: descriptor(7) + 12, values: [halves(3, AVAIL | NEXT), halves(3, AVAIL)] });
      popAll([{ id: 3, out: new Array(8).fill(piece(1)), in: [] }]);
    });

    it('data or table, long or short', async () => {
      const { ring } = stage;
      const table = TABLES.address;
      ring.setDesc(0, { addr: BigInt(address), len: 5, flags: 0, id: 0 }, table);
      ring.setDesc(1, { addr: BigInt(address), len: 6, flags: 0, id: 0 }, table);
      ring.offer([{ addr: table, len: 32, flags: INDIRECT }], 3);
      await flip(
        { address: descriptor(0) + 8, values: [32, 16] },
        { address: descriptor(0) + 12, values: [halves(3, AVAIL | INDIRECT), halves(3, AVAIL | WRITE)] },
      );
      popAll([
        { id: 3, out: [piece(5), piece(6)], in: [] },
        { id: 3, out: [piece(5)], in: [] },
        { id: 3, out: [], in: [piece(32, table)] },
        { id: 3, out: [], in: [piece(16, table)] },
      ]);
    });

    it('the used descriptor', async () => {
      const driver = stage.driver();
      const { view } = stage.ring;
      await flip({ address: descriptor(0) + 8, values: [4, -1] });
      let got = 0;
      let bytes = 0;
      let i = 0;
      repeat(() => {
        driver.add([], [{ address, length: 10 }], 0xabcd);
        // Id 0 or 9, written and then made to be seen.
        const bad = i++ % 3 === 0;
        view.setUint16(descriptor(0) + 12, bad ? 9 : 0, true);
        view.setUint16(descriptor(0) + 14, AVAIL | USED | WRITE, true);
        try {
          const { token, length } = driver.getBuf() as Completion;
          if (bad || token !== 0xabcd) throw new Error(`token ${token} was never used`);
          // 10 is also what the driver wrote there itself.
          if (length !== 4 && length !== 10)
            throw new Error(`length ${length} is none of those that there were`);
          got++;
          bytes += length;
        } catch (error) {
          if (!(error instanceof VringError)) throw error;
          expect(error.message).to.contain('used id 9');
          expect(bad).to.equal(true);
        }
        driver.reset();
      });
      expect(got).to.be.above(0);
      // What was handed out is what was counted.
      expect(driver.stats()).to.include({ bytesIn: bytes, completed: got });
    });
  });
});
