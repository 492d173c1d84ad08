// A headless browser that does what it is told: reads one step a line, as JSON, and answers each with one line. Ends with its standard input.
// With the argument `unpack` it only unpacks the browser.
//
//   {"open": URL}                              goes there
//   {"look": EXPRESSION}                       what it comes to in the page
//   {"wait": EXPRESSION}                       until it comes to something true
//   {"picture": FILE, "width": PIXELS, "dark": BOOL}
//   {"problems": true}                         what the page complained of, and what it asked of anybody but its own server
import { createInterface } from 'node:readline';
import chromium from '@sparticuz/chromium';
import puppeteer from 'puppeteer-core';

chromium.setGraphicsMode = false;
const executablePath = await chromium.executablePath();
if (process.argv[2] === 'unpack') process.exit();
// Its switches for web security would hide what the page's policy forbids.
const unsafe = /web-security|insecure-content|site-isolation|site-per-process/;
const args = chromium.args.filter((arg) => !unsafe.test(arg)).concat('--disable-background-networking', '--disable-component-update', '--disable-sync');
const browser = await puppeteer.launch({ args, executablePath, headless: 'shell' });
const page = await browser.newPage();
const problems = [];
let origin = '';
page.on('pageerror', (error) => problems.push(`error: ${error.message}`));
page.on('console', (message) => message.type() === 'error' && problems.push(`console: ${message.text()}`));
page.on('request', (request) => {
  const url = request.url();
  if (!url.startsWith(origin) && !url.startsWith('data:')) problems.push(`asked elsewhere: ${url}`);
});

async function does(step) {
  if (step.open) {
    origin = new URL(step.open).origin;
    await page.goto(step.open);
  } else if (step.look) {
    return page.evaluate(step.look);
  } else if (step.wait) {
    await page.waitForFunction(step.wait, { timeout: 30_000, polling: 50 });
  } else if (step.picture) {
    await page.setViewport({ width: step.width, height: 700 });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: step.dark ? 'dark' : 'light' }]);
    await page.screenshot({ path: step.picture, fullPage: true });
  } else if (step.problems) {
    return problems.splice(0);
  }
  return null;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { value: (await does(JSON.parse(line))) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
