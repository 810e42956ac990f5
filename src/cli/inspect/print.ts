import { colours } from '../colours.js';
import { printPackedDevice, printPackedDriver, printPackedDump } from './print-packed.js';
import { printSplitDevice, printSplitDriver, printSplitDump } from './print-split.js';
import { Sheet } from './sheet.js';
import type { Inspected } from './source.js';

/** An inspection for the terminal. */
export function print(inspected: Inspected, coloured: boolean): string {
  const sheet = new Sheet(colours(coloured));
  if (!('side' in inspected)) {
    if (inspected.ring === 'split') printSplitDump(inspected, sheet);
    else printPackedDump(inspected, sheet);
  } else if (inspected.side === 'driver') {
    if (inspected.ring === 'split') printSplitDriver(inspected, sheet);
    else printPackedDriver(inspected, sheet);
  } else if (inspected.ring === 'split') printSplitDevice(inspected, sheet);
  else printPackedDevice(inspected, sheet);
  return sheet.text;
}
