"""page.py URL CHROMIUM FOLDER NAME TOKEN WORD...: looks at the admin port's page as a person would.

Waits until it shows every WORD, tries the keyboard, both themes and, if TOKEN is not empty, the question for it. Fails
when the page says anything to the console, asks anybody else, or does not do what it should. Screenshots are left in
FOLDER as NAME-light.png and NAME-dark.png.
"""

import sys
from playwright.sync_api import sync_playwright

url, chromium, folder, name, token, *words = sys.argv[1:]
said, asked = [], []


def check(holds, what):
    if not holds:
        sys.exit(f"{what}; the console: {said}")


def until(page, holds, what):
    for _ in range(300):
        if holds():
            return
        page.wait_for_timeout(100)
    check(False, f"it does not show {what}")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
    page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)

    if token:
        for given in ("not-the-right-token", token):
            page.locator("#token:visible").wait_for()
            page.fill("#token", given)
            page.keyboard.press("Enter")
            page.locator("#login-error", has_text="That is not it").wait_for(state="attached") if given != token else None
        # A browser notes each answer that is an error: twice there was no right token.
        page.locator("#state", has_text="running").wait_for()
        check(len(said) == 2 and all("401" in line for line in said), "more than two refusals")
        said.clear()

    until(page, lambda: int(page.get_attribute("body", "data-overviews") or 0) >= 6, "overviews")
    for word in words:
        until(page, lambda: word in page.locator("body").inner_text(), word)
    check("marked" not in page.content(), "a value is on the page")
    check(page.locator("path.trace[d^=M]").count() > 0, "nothing is drawn")

    page.keyboard.press("Tab")
    check(page.evaluate("document.activeElement.className") == "skip", "Tab does not begin at the way to the contents")
    page.keyboard.press("Enter")
    check(page.evaluate("document.activeElement.id") == "main", "the way to the contents leads elsewhere")
    page.focus("#theme")
    page.keyboard.press("Enter")
    check(page.evaluate("document.documentElement.className") == "dark", "no dark")
    page.screenshot(path=f"{folder}/{name}-dark.png", full_page=True)
    page.keyboard.press("Enter")
    page.screenshot(path=f"{folder}/{name}-light.png", full_page=True)
    page.evaluate("sessionStorage.removeItem('theme')")
    page.emulate_media(color_scheme="dark")
    page.locator("html.dark").wait_for()
    page.set_viewport_size({"width": 390, "height": 800})
    check(page.evaluate("document.documentElement.scrollWidth") <= 390, "wider than a telephone")

    check(all(one.startswith(url) for one in asked), f"others are asked: {asked}")
    check(not said, "it says something")
    browser.close()
