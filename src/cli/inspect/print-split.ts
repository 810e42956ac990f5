import type { TableMemoryView } from '../../queue/inspect/inspect.js';
import type { AvailView, UsedView } from '../../queue/inspect/split.js';
import type { SplitDeviceView } from '../../queue/inspect/split-device.js';
import type { SplitDriverView } from '../../queue/inspect/split-driver.js';
import type { SplitDumpView } from '../../queue/inspect/split-dump.js';
import { number } from '../table.js';
import { elementRows } from './elements.js';
import {
  batchFact,
  commonFacts,
  counted,
  type Fact,
  plural,
  ranges,
  type Sheet,
  saturated,
  sideProblems,
  tableFact,
  unlisted,
} from './sheet.js';

/** Most slots of the rings that are printed. */
const SLOTS_MAX = 64;

const names = (flags: readonly string[]): string => flags.join(' ') || 'none';

/** The words of both areas; the events mean something with EVENT_IDX alone. */
function wordFacts(
  { avail, used }: { avail?: AvailView; used?: UsedView },
  eventIdx: boolean,
  { paint }: Sheet,
): Fact[] {
  const event = (text: string) => (eventIdx ? text : paint.quiet(text));
  const facts: Fact[] = [];
  if (avail)
    facts.push([
      'avail',
      `idx ${avail.idx}, flags ${names(avail.flags)}, ${event(`used_event ${avail.usedEvent}`)}`,
    ]);
  if (used)
    facts.push([
      'used',
      `idx ${used.idx}, flags ${names(used.flags)}, ${event(`avail_event ${used.availEvent}`)}`,
    ]);
  return facts;
}

export function printSplitDriver(view: SplitDriverView & TableMemoryView, sheet: Sheet): void {
  const { position, pending } = view;
  sheet.title(`Driver of a split ring of ${number(view.size)}`, view.features, sideProblems(view));
  sheet.facts([
    ['position', `next buffer at ${position.avail}, next used entry at ${position.used}`],
    ...wordFacts(view, view.features.includes('EVENT_IDX'), sheet),
    ['callbacks', view.callbacks ? 'enabled' : 'disabled'],
    ['not kicked', saturated(view.unkicked, 'buffer')],
    ['free', view.numFree === 0 ? 'none' : `${plural(view.numFree, 'descriptor')}: ${ranges(view.free)}`],
    ...batchFact(view.batch),
    ['tables', tableFact(view.tables)],
    ...commonFacts(view),
  ]);
  sheet.buffers(
    `In flight: ${counted(view.inFlight.length, 'buffer')}`,
    ['id', 'token', 'descriptors', 'writable'],
    view.inFlight.map((buffer) => ({
      ...buffer,
      cells: [buffer.id, buffer.token, ranges(buffer.descriptors, 4), buffer.writable],
    })),
  );
  if (pending)
    sheet.buffers(
      `Used and not taken: ${counted(pending.count, 'entry', 'entries')}`,
      ['slot', 'id', 'length'],
      pending.entries.map(({ slot, id, length, problem }) => ({
        cells: [slot, id, length],
        ...(problem !== undefined && { problem }),
      })),
    );
  else sheet.withoutMemory();
}

export function printSplitDevice(view: SplitDeviceView, sheet: Sheet): void {
  const { position, pending } = view;
  sheet.title(`Device of a split ring of ${number(view.size)}`, view.features, sideProblems(view));
  sheet.facts([
    ['position', `next buffer at ${position.avail}, next used entry at ${position.used}`],
    ...wordFacts(view, view.features.includes('EVENT_IDX'), sheet),
    ['notifications', view.notifications ? 'enabled' : 'disabled'],
    ['not signalled', saturated(view.unsignalled, 'element')],
    ...commonFacts(view),
  ]);
  sheet.buffers(`In flight: ${counted(view.inFlight.length, 'element')}`, ...elementRows(view.inFlight));
  if (pending)
    sheet.buffers(
      `Available and not popped: ${counted(pending.count, 'buffer')}`,
      ['slot', 'id', 'writable'],
      pending.buffers.map((buffer) => ({ ...buffer, cells: [buffer.slot, buffer.id, buffer.writable] })),
      unlisted(Math.min(pending.count, view.size) - pending.buffers.length, 'buffer'),
    );
  else sheet.withoutMemory();
}

export function printSplitDump(view: SplitDumpView, sheet: Sheet): void {
  const { avail, used, outstanding, descriptors } = view;
  sheet.title(`Split ring of ${number(view.size)}`, [], view.problems);
  // Whether EVENT_IDX was negotiated, a dump does not say.
  sheet.facts(wordFacts(view, true, sheet));
  sheet.buffers(
    `Available and not used: ${counted(outstanding.count, 'buffer')}${outstanding.exact || outstanding.buffers.length === 0 ? '' : `, among these ${outstanding.buffers.length}`}`,
    ['slot', 'id', 'writable'],
    outstanding.buffers.map((buffer) => ({ ...buffer, cells: [buffer.slot, buffer.id, buffer.writable] })),
  );
  const written = descriptors.filter(
    ({ address, length, flags, next }) => address !== '0x0' || length !== 0 || flags.length > 0 || next !== 0,
  );
  sheet.buffers(
    `Descriptors: ${number(view.size)}${written.length < view.size ? `, ${number(view.size - written.length)} of them 0` : ''}`,
    ['index', 'address', 'length', 'flags', 'next'],
    written.map(({ index, address, length, flags, next }) => ({
      cells: [
        index,
        address,
        length,
        flags.join(' '),
        flags.includes('NEXT') ? next : sheet.paint.quiet(`${next}`),
      ],
    })),
  );
  const mark = (slot: number) =>
    [avail.idx % view.size === slot && 'avail', used.idx % view.size === slot && 'used']
      .filter(Boolean)
      .join(', ');
  const shown = Math.min(view.size, SLOTS_MAX);
  // Of a large ring the latest ones, up to the one that comes next.
  const first = shown < view.size ? avail.idx + 1 - shown + view.size : 0;
  const slots = Array.from({ length: shown }, (_, i) => (first + i) % view.size);
  sheet.buffers(
    shown < view.size ? `Rings: the last ${shown} slots of ${number(view.size)}` : 'Rings',
    ['slot', 'avail.ring', 'used.ring id', 'used.ring len', 'next entry'],
    slots.map((slot) => {
      const { id, length } = used.ring[slot];
      return { cells: [slot, avail.ring[slot], id, length, mark(slot)] };
    }),
  );
}
