import type { ElementView } from '../../queue/inspect/side.js';
import { number } from '../table.js';
import type { Row } from './sheet.js';

const STATES = {
  popped: () => 'popped',
  filled: ({ written = 0, offset = 0 }: ElementView) =>
    `filled (${number(written)} bytes, ${offset === 0 ? 'next' : `${number(offset)} ahead`})`,
  done: ({ written = 0 }: ElementView) => `done (${number(written)} bytes)`,
};

/** Head and rows of a table of elements in flight. */
export function elementRows(elements: readonly ElementView[]): [string[], Row[]] {
  return [
    ['id', 'state', 'writable'],
    elements.map((element) => ({
      ...element,
      cells: [element.id, STATES[element.state](element), element.writable ?? '?'],
    })),
  ];
}
