// What a driver ring says of itself at the interface of the engines: in its saved state, in a fault.

import { expect } from 'chai';
import * as L from '../../assembly/abi/layout.js';
import { forEachRig } from '../support/rigs.js';
import { DATA, DESC, type Part } from '../support/ring-rig.js';

forEachRig('a driver ring', (setUp) => {
  const part = (length: number, writable = true): Part => [DATA, length, writable];

  for (const ring of ['split', 'packed'] as const)
    it(`keeps the others in order while buffers are taken back, ${ring} ring`, () => {
      const rig = setUp({ ring, size: 8, inOrder: true });
      // Four buffers of two descriptors, of which the first two come back; three more go around the end.
      rig.add(
        [1, 2, 3, 4].map(() => [part(4, false), part(4)]),
        1,
      );
      const popped = rig.pop();
      expect(popped).to.be.an('array').with.lengthOf(4);
      const ids = (popped as { id: number }[]).map(({ id }) => id);
      rig.push([
        [ids[0], 0],
        [ids[1], 4],
      ]);
      expect(rig.get()).to.deep.equal([
        [1, 0],
        [2, 4],
      ]);
      rig.add([[part(4)], [part(4)], [part(4)]], 5);
      const saved = () => {
        const { buffers, free } = rig.driver.save();
        return { tokens: buffers.map(({ token }) => token), free };
      };
      const steps = [saved()];
      while (rig.detachUnused()) steps.push(saved());
      // The lowest head or id first.
      const expected =
        ring === 'split'
          ? [
              { tokens: [3, 4, 5, 6, 7], free: [3] },
              { tokens: [3, 4, 6, 7], free: [3, 0] },
              { tokens: [3, 4, 7], free: [3, 0, 1] },
              { tokens: [3, 4], free: [3, 0, 1, 2] },
              { tokens: [4], free: [3, 4, 5, 0, 1, 2] },
              { tokens: [], free: [3, 4, 5, 6, 7, 0, 1, 2] },
            ]
          : [
              { tokens: [3, 4, 5, 6, 7], free: [7, 0, 1] },
              { tokens: [4, 5, 6, 7], free: [7, 0, 1, 2] },
              { tokens: [5, 6, 7], free: [7, 0, 1, 2, 3] },
              { tokens: [6, 7], free: [7, 0, 1, 2, 3, 4] },
              { tokens: [7], free: [7, 0, 1, 2, 3, 4, 5] },
              { tokens: [], free: [7, 0, 1, 2, 3, 4, 5, 6] },
            ];
      expect(steps).to.deep.equal(expected);
    });

  for (const inOrder of [false, true])
    for (const [flags, write] of [
      [0x8082, 'with'],
      [0x8080, 'without'],
    ] as const)
      it(`says in a fault which length a used descriptor ${write} WRITE had${inOrder ? ', in order' : ''}`, () => {
        const rig = setUp({ ring: 'packed', size: 8, inOrder });
        rig.add([[part(100)]], 1);
        rig.forge(DESC, 0, 0, 50, 3, flags);
        expect(rig.get()).to.equal(L.RESULT_BROKEN);
        expect(rig.fault('driver')).to.deep.equal([L.FAULT_USED_ID, 3n, 50n]);
      });

  for (const ring of ['split', 'packed'] as const)
    it(`has no length of a batch where there is no batch, ${ring} ring`, () => {
      const rig = setUp({ ring, size: 8, inOrder: true });
      rig.add([[part(9)], [part(9)], [part(9)]], 1);
      const popped = rig.pop() as { id: number }[];
      const batch = () => {
        const { batchLeft, batchLength } = rig.driver.save();
        return [batchLeft, batchLength];
      };
      rig.push([
        [popped[0].id, 9],
        [popped[1].id, 5],
      ]);
      expect(rig.get(1)).to.deep.equal([[1, 9]]);
      expect(batch()).to.deep.equal([1, 5]);
      expect(rig.get(1)).to.deep.equal([[2, 5]]);
      expect(batch()).to.deep.equal([0, 0]);
    });
});
