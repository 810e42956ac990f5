// Sentences of src/engine/engine.ts about choices that the specification leaves open, one test each.

import { expect } from 'chai';
import * as L from '../../assembly/abi/layout.js';
import { forEachRig } from '../support/rigs.js';
import { DATA, DESC, DEVICE, DRIVER, type Part, type RingRig, TABLES } from '../support/ring-rig.js';

const RINGS = ['split', 'packed'] as const;
const part = (length: number, writable = true): Part => [DATA, length, writable];
const out = part(4, false);

/** Notifications that a side sent and left out. */
const counted = (t: RingRig, side: 'driver' | 'device') => [
  t[side].counter(L.COUNT_NOTIFIED),
  t[side].counter(L.COUNT_SUPPRESSED),
];

forEachRig('the contract', (setUp) => {
  describe('kickPrepare with nothing added', () => {
    for (const ring of RINGS)
      it(`is decided by the flags and counts, ${ring} ring`, () => {
        const t = setUp({ ring, size: 4 });
        expect(t.driver.kickPrepare()).to.equal(1);
        t.device.disableNotifications();
        expect(t.driver.kickPrepare()).to.equal(0);
        expect(counted(t, 'driver')).to.deep.equal([1, 1]);
      });

    it('is decided by the flags of a packed ring with EVENT_IDX, too, unless they say DESC', () => {
      const t = setUp({ ring: 'packed', size: 4, eventIdx: true });
      expect(t.driver.kickPrepare()).to.equal(1);
      t.device.disableNotifications();
      expect(t.driver.kickPrepare()).to.equal(0);
      expect(counted(t, 'driver')).to.deep.equal([1, 1]);
      t.device.enableNotifications();
      expect(t.view.getUint16(DEVICE + L.EVENT_FLAGS, true)).to.equal(L.RING_EVENT_FLAGS_DESC);
      expect(t.driver.kickPrepare()).to.equal(0);
      expect(counted(t, 'driver')).to.deep.equal([1, 1]);
    });

    it('is 0 and not counted in a split ring with EVENT_IDX', () => {
      const t = setUp({ ring: 'split', size: 4, eventIdx: true });
      expect(t.driver.kickPrepare()).to.equal(0);
      expect(counted(t, 'driver')).to.deep.equal([0, 0]);
    });
  });

  for (const ring of RINGS)
    for (const eventIdx of [false, true])
      it(`shouldInterrupt with nothing pushed is 0 and not counted, ${ring} ring${eventIdx ? ' with EVENT_IDX' : ''}`, () => {
        const t = setUp({ ring, size: 4, eventIdx });
        expect(t.device.shouldInterrupt()).to.equal(0);
        expect(counted(t, 'device')).to.deep.equal([0, 0]);
      });

  for (const eventIdx of [false, true])
    it(`event flags are written only when they change${eventIdx ? ', with EVENT_IDX' : ''}`, () => {
      const t = setUp({ ring: 'packed', size: 4, eventIdx });
      for (const [address, disable, enable] of [
        [DRIVER, () => t.driver.disableCallbacks(), () => t.driver.enableCallbacksPrepare()],
        [DEVICE, () => t.device.disableNotifications(), () => t.device.enableNotifications()],
      ] as const) {
        // A value that nobody writes shows whether somebody has written.
        const written = (act: () => void) => {
          t.view.setUint16(address + L.EVENT_FLAGS, 0x5554, true);
          act();
          const flags = t.view.getUint16(address + L.EVENT_FLAGS, true);
          return flags === 0x5554 ? undefined : flags;
        };
        expect(written(enable)).to.equal(undefined);
        expect(written(disable)).to.equal(L.RING_EVENT_FLAGS_DISABLE);
        expect(written(disable)).to.equal(undefined);
        expect(written(enable)).to.equal(eventIdx ? L.RING_EVENT_FLAGS_DESC : L.RING_EVENT_FLAGS_ENABLE);
        expect(written(enable)).to.equal(undefined);
      }
    });

  for (const eventIdx of [false, true])
    it(`a split ring writes its ${eventIdx ? 'event' : 'flag'} each time`, () => {
      const t = setUp({ ring: 'split', size: 4, eventIdx });
      const address = eventIdx ? DRIVER + 4 + 2 * 4 : DRIVER;
      const written = (act: () => void) => {
        t.view.setUint16(address, 0x5554, true);
        act();
        return t.view.getUint16(address, true);
      };
      for (const _ of [1, 2])
        expect(written(() => t.driver.disableCallbacks())).to.equal(eventIdx ? L.EVENT_FAR : 1);
      for (const _ of [1, 2]) expect(written(() => t.driver.enableCallbacksPrepare())).to.equal(0);
    });

  it('FAULT_INDIRECT_* names the slot that has the flag', () => {
    const table = { indirect: true, ring: 'packed', size: 8 } as const;
    const t = setUp(table);
    t.add([[out]], 1);
    t.pop();
    t.forge(DESC, 1, DATA, 4, 0, 0x80 | L.DESC_F_NEXT);
    t.forge(DESC, 2, TABLES, 16, 0, 0x80 | L.DESC_F_INDIRECT);
    expect(t.pop()).to.equal(L.RESULT_BROKEN);
    expect(t.fault('device')).to.deep.equal([L.FAULT_INDIRECT_NEXT, 2n, 0x84n]);
    const refused = setUp({ ...table, indirect: false });
    refused.forge(DESC, 0, DATA, 4, 0, 0x80 | L.DESC_F_NEXT);
    refused.forge(DESC, 1, TABLES, 16, 0, 0x80 | L.DESC_F_INDIRECT);
    expect(refused.pop()).to.equal(L.RESULT_BROKEN);
    expect(refused.fault('device')).to.deep.equal([L.FAULT_INDIRECT_REFUSED, 1n, 0x84n]);
  });

  describe('in-order use', () => {
    for (const ring of RINGS) {
      const popped = (): [t: RingRig, ids: number[]] => {
        const t = setUp({ ring, size: 8, inOrder: true });
        t.add([[out, part(4)], [part(4)], [part(4)]], 1);
        return [t, (t.pop() as { id: number }[]).map(({ id }) => id)];
      };

      it(`a pushBurst that marks nothing publishes nothing, ${ring} ring`, () => {
        const [t, [first, second]] = popped();
        expect(t.device.fill(first, 4, 0)).to.equal(0);
        const before = t.copy();
        expect(t.push([])).to.equal(0);
        expect(t.push([[second, 5]])).to.equal(0);
        expect(t.copy()).to.deep.equal(before);
        expect(t.push([[second, 4]])).to.equal(1);
        expect(t.get()).to.deep.equal([
          [1, 4],
          [2, 4],
        ]);
      });

      for (const n of [0, 1, 3, 1000])
        it(`flush(${n}) publishes what is done, ${ring} ring`, () => {
          const [t, [first, second, third]] = popped();
          for (const id of [third, first]) expect(t.device.fill(id, 4, 7)).to.equal(0);
          expect(t.device.flush(n)).to.equal(0);
          expect(t.get()).to.deep.equal([[1, 4]]);
          t.device.fill(second, 4, 7);
          expect(t.device.flush(n)).to.equal(0);
          expect(t.get()).to.deep.equal([
            [2, 4],
            [3, 4],
          ]);
        });

      it(`a detached element keeps its place and its slots, ${ring} ring`, () => {
        const [t, [first, second, third]] = popped();
        expect(t.device.detach(first)).to.equal(0);
        expect(t.push([[second, 4]])).to.equal(1);
        expect(t.device.fill(third, 4, 0)).to.equal(0);
        expect(t.device.flush(2)).to.equal(0);
        expect(t.get()).to.deep.equal([]);
        // The driver has its room only after what was detached came back, which it does not.
        expect(t.driver.numFree).to.equal(4);
        const state = t.device.save();
        expect(state.used & 0x7fff).to.equal(0);
        expect(state.elements.map(({ slots }) => slots)).to.deep.equal([1, 1]);
      });
    }
  });
});
