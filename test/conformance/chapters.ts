import { initialization } from './initialization.js';
import { packed } from './packed.js';
import { pci } from './pci.js';
import { split } from './split.js';
import type { Chapter } from './statement.js';

/** The ledger, in the order of docs/conformance.md. */
export const chapters: readonly Chapter[] = [initialization, split, packed, pci];
